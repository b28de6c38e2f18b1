"""How does a publication become a commit?

`queue` collects the writes of the threads of a process and gives each group one transaction. `writer` reads the newest
revision (`view`), lets `core.log` plan the commit, and writes its rows. `chunk_writing` keeps the sums of chunks.

Who refuses a commit? `core.log.publishing` for what other commits did, and for locks. `writer` refuses one whose
writer's lease is gone, whose base revision does not exist, and one that brings back a segment whose file is being
removed. A writer that reads a source must go on from the position that the store has (`core.log.positions`).
"""
