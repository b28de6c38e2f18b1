"""What does a process say of itself, and under which other paths is it asked?

`status` is what load balancers, dashboards and consoles ask first, `proxied` the paths by which Druid's web console
reaches an overlord and a coordinator through a router.
"""
