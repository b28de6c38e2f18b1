"""Upkeep of a store: garbage collection, leftovers of dead attempts, verification and scrubbing."""
