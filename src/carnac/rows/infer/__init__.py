"""Inference from the data of how to read it: a sample of it, and the columns that the sample shows."""
