"""What the data itself says of how it is to be read: a sample of it, and the columns that the sample shows."""
