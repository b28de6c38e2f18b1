"""`demo cluster`: a cluster of real processes that is published to, compacted, moved and killed while it is asked.

`processes` starts and kills the servers, `load` asks all the while, `checks` holds every answer against the revision
that it names, `story` tells it, `report` draws it.
"""
