"""Tables and columns of a revision, and names of the columns of an answer."""
