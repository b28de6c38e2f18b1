"""Random histories of one datasource: clips, carved chunks, columns that come, go and are widened."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from carnac.store import Store
from tests.support.spark_format import write

START = datetime(2024, 1, 1, tzinfo=UTC)
HOURS = 24 * 6
SHAPES: tuple[dict[str, list[object]], ...] = (
    {"n": [1, 2, None], "k": ["a", "b", None]},
    {"n": [1.5, -2.0, None], "k": ["a", "c"]},
    {"n": [7], "tags": [["x", "y"], [], None]},
    {"k": ["a", None], "is_new": [True, False]},
)


def random_table(rng: random.Random) -> pa.Table:
    """Return rows of one of several shapes."""
    count = rng.randint(1, 40)
    shape = rng.choice(SHAPES)
    times = [
        START + timedelta(hours=rng.randrange(HOURS), minutes=rng.randrange(60))
        for _ in range(count)
    ]
    columns: dict[str, object] = {"t": times}
    for name, values in shape.items():
        columns[name] = [rng.choice(values) for _ in range(count)]
    types = {"tags": pa.list_(pa.string()), "t": pa.timestamp("us", "UTC"), "k": pa.string()}
    types["n"] = pa.float64() if 1.5 in shape.get("n", []) else pa.int64()
    return pa.table(
        {name: pa.array(values, types.get(name, pa.bool_())) for name, values in columns.items()}
    )


def random_interval(rng: random.Random) -> str:
    start = START + timedelta(hours=rng.randrange(HOURS))
    return f"{start.isoformat()}/{(start + timedelta(hours=rng.randint(1, 40))).isoformat()}"


def random_history(store: Store, rng: random.Random, steps: int) -> None:
    """Append, delete and replace until the store has clips, columns of several types and carved chunks."""
    store.append("events", random_table(rng), allow_type_change=True)
    for _ in range(steps):
        what = rng.random()
        if what < 0.5:
            store.append("events", random_table(rng), allow_type_change=True, allow_missing=True)
        elif what < 0.75:
            store.delete("events", interval=random_interval(rng))
        else:
            write(
                store,
                "events",
                random_table(rng),
                is_overwrite=True,
                intervals=random_interval(rng),
                allowTypeChange="true",
                allowMissing="true",
            )
