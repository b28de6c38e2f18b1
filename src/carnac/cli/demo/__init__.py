"""The demo: one story on 336,776 real flights, with a check that every count equals the source."""
