"""One statement over many servers: sorted into one round or gathered, asked of leaves, merged at a broker.

A broker's four steps, each a call of `DuckDbQueryEngine` (ports `BrokerEngine` and `LeafEngine`):

    plan = engine.plan_distributed(sql, catalog, parameters=parameters)     # a `Distribution`
    for leaf in plan.leaves:                                  # one for each scan, with all the slices that matter
        asked = leaf.over(slices_of_one_server)               # every slice goes to exactly one server
        with server_engine.run_leaf(asked) as answer:         # on that server
            rows = pa.Table.from_batches(list(answer.batches), answer.schema)
    result = engine.run_final(plan, {leaf.name: [rows, ...]}) # one table (or reader) for each server that was asked

The answer is complete exactly if the union of `answer.segment_ids` over the requests is `plan.segment_ids`.
`plan.way` and `plan.reason` say how and why; what cannot be run raises Invalid and says what to do.

Open `sorting` for what one round is, `groups` and `rows` for how partial answers are made and merged, `gathering` for
what is sent for everything else.
"""
