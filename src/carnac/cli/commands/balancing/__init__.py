"""`carnac balance …`: who holds what, what will move, and what would be."""
