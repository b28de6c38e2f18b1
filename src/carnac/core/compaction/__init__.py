"""Compaction: the segments to fold, the time to do it, and the result. Pure.

Source: "Compaction Notes". `plan` decides which tasks there should be, `control` which of them run now.
"""
