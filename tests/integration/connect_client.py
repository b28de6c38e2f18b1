"""A program with a Spark Connect session of its own: `connect_client.py STORE URL`. Prints one JSON document."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import carnac
from carnac.errors import CarnacError

ROWS = [(f"2026-01-0{1 + n % 3}T{n % 24:02d}:00:00Z", f"p{n % 5}", n) for n in range(100)]
SPEC: dict[str, object] = {
    "dataSource": "frames",
    "timestampSpec": {"column": "ts"},
    "dimensionsSpec": {"dimensions": ["page", {"type": "long", "name": "n"}]},
    "granularitySpec": {"segmentGranularity": "day"},
}
EXPRESSION = {"transforms": [{"name": "page", "expression": "upper(page)"}], "filter": "n < 10"}
LOAD = """REPLACE INTO loaded OVERWRITE ALL
    SELECT f.__time, regexp_replace(x.name, '[aeiou]', '*') AS page, SUM(f.n) AS n
    FROM (SELECT TIME_FLOOR(__time, 'P1M') AS __time, page, n FROM frames) f
    JOIN TABLE(EXTERN('{"type": "inline", "data": "page,name\\np1,one\\np2,two"}', '{"type": "csv"}'))
        (page VARCHAR, name VARCHAR) x ON x.page = f.page
    GROUP BY 1, 2 PARTITIONED BY MONTH"""


def main(place: str, url: str) -> None:
    session = SparkSession.builder.remote(url).getOrCreate()
    frame = session.createDataFrame(ROWS, "ts string, page string, n bigint")
    report: dict[str, object] = {}
    with carnac.open(place, create=True) as store:
        store.ingest(SPEC, frame)
        store.ingest(SPEC, frame.toArrow())
        store.ingest({**SPEC, "transformSpec": EXPRESSION}, frame)
        deleted = store.delete("frames", where="upper(page) = 'P4'")
        compacted = store.compact_interval("frames")
        report["deleted"] = deleted.rows_deleted
        report["groups"] = [one.outcome for one in compacted.groups]
        for what, spec in {
            "wrong": {**SPEC, "transformSpec": {"filter": "pagee = 3"}},
            "bad": {**SPEC, "tuningConfig": {"maxParseExceptions": 0}},
        }.items():
            try:
                rows = session.createDataFrame([("never", "p", 1)], frame.schema)
                store.ingest(spec, rows)
            except CarnacError as error:
                report[what] = error.message
        found = store.read_spark("frames").groupBy("page").count().orderBy("page").collect()
        report["pages"] = {row["page"]: row["count"] for row in found}
        grouped = store.sql("SELECT page, count(*) AS n FROM frames GROUP BY 1").rows()
        report["sql"] = {row["page"]: row["n"] for row in grouped}
        loaded = store.ingest(LOAD)
        report["loaded"] = [
            None if loaded.report is None else loaded.report.rows_read,
            store.sql("SELECT page, n FROM loaded ORDER BY page").rows(),
        ]
        report["revision"] = store.head().revision
    report["is_theirs"] = session.range(3).count() == 3  # closing the store does not stop it
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
