"""The statements of the store as each database takes them. Written by `make statements`: edit `definitions` instead."""
