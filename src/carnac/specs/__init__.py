"""Specs: what a job should do, as data; pure, without I/O."""
