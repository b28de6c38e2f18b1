"""The composition roots of processes that serve: one function for each role, and what joins them at one port."""
