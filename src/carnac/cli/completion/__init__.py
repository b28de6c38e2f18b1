"""Completion in a shell: the answers of `carnac` when Tab is pressed, from the store's metadata alone and at once."""
