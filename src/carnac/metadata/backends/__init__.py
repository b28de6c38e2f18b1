"""How is a database reached, written by one at a time, and what do its errors mean?

`sqlite` is a file: its driver (`sqlite_driver`), readers (`reader_pool`), the queue of its writers across processes
(`writer_queue`), a file that can only be read (`sqlite_reading`), one that nobody keeps (`temporary`). `postgresql`
is a server. Both are a `metadata.database.Database`.
"""
