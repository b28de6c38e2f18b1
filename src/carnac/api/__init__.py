"""What a serving process answers to clients, over HTTP and Flight SQL. FastAPI is imported where the app is made.

`app` joins the routes of the process's roles behind the `gate`, which knows limits, host names and users (`access`).
`sql` is `/druid/v2/sql`, `native` is `/druid/v2`, `avatica` is JDBC, `flight_sql` is Flight SQL, `iceberg` is the
catalog of Iceberg. `tasks`, `locks` and `overlord` are the paths of an overlord, `coordinator` those of a coordinator,
`front` has `/status` and `/proxy`, `own` and `allocation` have `/carnac/v1`. `client` asks an overlord.

Who may see which datasource? `access` finds the user of a request and the permission that its path needs. A user with
patterns of datasources is let through on paths of `core.access` that show nothing of others, and the catalog of its
queries has only those datasources: another one does not exist for it.
"""
