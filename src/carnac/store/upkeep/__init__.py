"""What keeps a store small and honest: garbage collection, what dead attempts left, verification and scrubbing."""
