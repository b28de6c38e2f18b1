"""How does a publication become a commit?

`queue` collects what the threads of a process want written and gives each group one transaction; `writer` reads
what the newest revision is (`view`), lets `core.log` plan the commit, and writes its rows; `chunk_writing` keeps
the sums of chunks.
"""
