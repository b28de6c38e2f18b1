"""The pure core: frozen data and pure functions. No I/O, clock, randomness, threads or logging.

Each folder decides on one subject, and its docstring says in which module what is decided: `log`, `segments`, `time`,
`pruning`, `timeline` on what is visible; `locks` and `tasks` on who may act; `compaction`, `balancing`, `rollout` and
`streams` on what is done next; `answers` on what an answer rests on. `iceberg` writes a revision as others read it.

| question | where |
|---|---|
| Which laws must always hold? | `invariants.py` lists them; each is one function, of a `laws.py` if code asks it |
| What may a user of a served store ask? | `access.py` |
| Which texts are refused as a name, as JSON, as an argument? | `texts.py`, `json_text.py`, `arguments.py` |
| What is left out of a text that may hold a password? | `redaction.py` |
| How is an id spelled, and that of one attempt known? | `ids.py` |
| How are values shown to people, as JSON, in SQL? | `showing.py` and `words.py`, `json_form.py`, `quoting.py` |
"""
