"""Commands that run for others, what they run, and which task holds what meanwhile."""
