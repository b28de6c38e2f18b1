"""The programs that targets of the Makefile run."""
