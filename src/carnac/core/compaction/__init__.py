"""Compaction: what should be folded, when, and into what. Pure.

Source: "Compaction Notes". `plan` says which tasks there should be, `control` which of them run now.
"""
