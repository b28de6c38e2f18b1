"""Completion in a shell: what `carnac` answers when Tab is pressed, from the store's metadata alone and at once."""
