"""Scenarios that come with Carnac."""

PRESETS = {
    "metamarkets": """
name: metamarkets
days: 16
movesPerHour: 1_000
planEveryHours: 12
looksPerMove: 3
reloadsPerHour: 2_000
history: {days: 90, strategy: legacy, movesPerHour: 1_200}
tiers:
- {name: main, servers: 300, diskGb: 3_000}
datasources:
- {name: large, count: 8, partitions: 95, skew: 0.4, sizeMb: 350, popularity: 3, load: [{days: 90}]}
- {name: small, count: 32, partitions: 5, skew: 0.4, sizeMb: 60, popularity: 1, load: [{days: 90}]}
queries: {count: 2_000}
events:
- {atHour: 124, kind: replace}
""",
    "small": """
name: small
days: 5
movesPerHour: 300
looksPerMove: 3
history: {days: 60, strategy: legacy, movesPerHour: 40}
tiers:
- {name: main, servers: 24, diskGb: 500}
datasources:
- {name: large, count: 2, partitions: 6, sizeMb: 350, popularity: 3, load: [{days: 60}]}
- {name: small, count: 6, partitions: 1, sizeMb: 60, load: [{days: 60}]}
queries: {count: 400}
events:
- {atHour: 60, kind: replace}
""",
    "mixed": """
name: mixed
days: 1
movesPerHour: 0
history: {days: 40, strategy: cost, movesPerHour: 0}
tiers:
- {name: main, servers: 20, diskGb: 500}
datasources:
- {name: clicks, count: 3, partitions: 4, load: [{days: 30}]}
- {name: visits, count: 3, granularity: six_hour, partitions: 8, load: [{days: 30}]}
- {name: reports, count: 3, granularity: day, partitions: 16, load: [{days: 30}]}
queries: {count: 1_000}
""",
    "tiers": """
name: tiers
days: 7
movesPerHour: 200
history: {days: 30, strategy: legacy, movesPerHour: 30}
tiers:
- {name: hot, servers: 10, diskGb: 300}
- {name: cold, servers: 8, diskGb: 1_500}
datasources:
- name: clicks
  count: 3
  partitions: 4
  skew: 0.7
  load: [{tier: hot, replicas: 2, days: 7}, {tier: cold, replicas: 1, days: 30}]
- name: reports
  count: 2
  granularity: day
  partitions: 6
  load: [{tier: cold, replicas: 2, days: 30}]
queries: {count: 400}
events:
- {atHour: -240, kind: add, tier: cold, servers: 2}
- {atHour: 24, kind: add, tier: hot, servers: 2}
- {atHour: 48, kind: decommission, tier: cold, servers: 1}
- {atHour: 96, kind: fail, tier: hot, servers: 1}
""",
}
"""By name: `metamarkets` is source 2's cluster, `small` the same story in seconds, `mixed` has hours, quarters of a
day and days side by side, `tiers` everything else."""
