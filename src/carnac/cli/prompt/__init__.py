"""`carnac sql` alone at a terminal: a prompt with history, completion and commands that begin with a dot."""
