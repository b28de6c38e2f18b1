"""How does a process report its state, and under which other paths is it asked?

`status` has the routes that load balancers, dashboards and consoles ask first, `proxied` the paths by which Druid's web
console reaches an overlord and a coordinator through a router.
"""
