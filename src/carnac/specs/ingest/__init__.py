"""The ingestion spec: where rows come from, what they are, how they are laid out."""
