"""Commands about the servers of a cluster and the rules by which they hold segments."""
