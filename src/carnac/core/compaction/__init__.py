"""Compaction: what should be folded, when, and into what. Pure.

Source: "Compaction Notes". Its steps, in order: `spans`, `chunks`, `scoring` (with `choosing`), `candidates`,
`colouring`; `planning` takes them all. `manager` decides when what is planned runs.
"""
