"""The findings about time chunks that are kept between two plans, and the choice of the tasks that run now.

`states` and `survey` keep the findings, `backlog` holds the chunks that wait, `manager` is the queue within its
capacity, `conductor` puts them together, `flow` tells whether compaction keeps up.
"""
