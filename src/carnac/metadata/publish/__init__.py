"""How does a publication become a commit?

`queue` collects the writes of the threads of a process and gives each group one transaction. `writer` reads the newest
revision (`view`), lets `core.log` plan the commit, and writes its rows. `chunk_writing` keeps the sums of chunks.
"""
