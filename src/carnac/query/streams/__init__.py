"""Statements whose rows are handed over as they come, and the basis of their answers."""
