"""Statements whose rows are handed over as they come, and what their answers rest on."""
