"""Deletion by predicate: the segments that hold a matching row are rewritten without it."""
