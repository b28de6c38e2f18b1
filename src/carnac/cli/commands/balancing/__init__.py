"""`carnac balance …`: which server holds what, what will move, and what would be."""
