"""One statement over many servers: sorted into one round or gathered, asked of leaves, merged at a broker.

A broker's four steps, each a call of `QueryEngine`:

    plan = engine.plan_distributed(sql, catalog, parameters=parameters, query_id="q1")        # a `Distribution`
    for leaf in plan.leaves:                            # a `LeafRequest` for each scan, with all slices that matter
        asked = replace(leaf, slices=slices_of_one_server)                # every slice goes to exactly one server
        batches, report = server_engine.run_leaf(asked)                   # on that server
        rows = pa.Table.from_batches(list(batches))
    result = engine.run_final(plan, {leaf.view: [rows, …], …})            # one table or reader for each server

The answer is complete exactly if the reports are whole, miss nothing, and their slices together are those of
`plan.leaves`. `plan.way` and `plan.reason` say how and why, `plan.basis` what the answer rests on. `plan.limit` limits
the rows that come together: a broker calls `plan.limit.check` while they come. A statement that cannot be run raises
Invalid.

Open `sorting` for the conditions of one round, `groups` and `rows` for how partial answers are made and merged,
`gathering` and `ranking` for the rows that are sent for all other statements.
"""
