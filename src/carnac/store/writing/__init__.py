"""From what a person asks for to one publication: loads, appends, deletions, cleaning.

`writer` leads each of them: it asks whether `(writer, batch)` was published before, takes a writer's lease, notes which
segments show what (`shown`), has the rows read and written (`carnac.jobs`: on Spark, of an append in this process), and
publishes. `loading` finds the spec of an append in the `declarations`; `deleting` and `cleaning` say what those two
publish; `guarding` asks for the locks of a task and for the places of its segments.
"""
