"""JDBC: the protocol of Calcite's Avatica in JSON, as its driver speaks it with Apache Druid.

Each request is a POST to one path and names what it wants. `routes` is that path, `service` does what is asked, over
the statements of `carnac.api.sql`. `connections` keeps what is open between requests, within limits and no longer than
somebody uses it; `held` the rows that were not fetched yet. `columns` and `parameters` are values in the driver's
forms, `listings` the statements that answer `DatabaseMetaData`, `asked` reads requests, `problems` says what is wrong.
"""
