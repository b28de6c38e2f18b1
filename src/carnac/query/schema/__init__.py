"""Which tables and columns there are, and what the columns of an answer are called."""
