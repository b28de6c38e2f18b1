"""The pure core: frozen data and pure functions. No I/O, clock, randomness, threads or logging."""
