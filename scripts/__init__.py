"""What the targets of the Makefile run."""
