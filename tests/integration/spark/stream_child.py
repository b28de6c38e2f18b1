"""A driver that streams into a store and kills itself in a batch: `stream_child.py FOLDER POINT BATCH`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import carnac
from tests.support.counting import SPEC, Counting


def main(folder: str, point: str, batch: int) -> None:
    settings = {"spark_master": "local[2]"}
    with carnac.open(folder, create=True, **settings) as store:
        batches = 0
        owner: Any = store._metadata if point == "before publish" else store
        name = "publish" if point == "before publish" else "ingest"
        done = getattr(owner, name)

        def dying(*given: Any, **named: Any) -> Any:
            nonlocal batches
            batches += 1
            is_due = batches == batch and point != "random"
            if is_due and point != "after publish":
                os.kill(os.getpid(), signal.SIGKILL)
            result = done(*given, **named)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, dying)
        spark = store._pipeline()._holder.session()
        spark.dataSource.register(Counting)
        source = spark.readStream.format("counting").option("step", 4).option("last", 25).load()
        with store.stream(SPEC, source, writer="w") as stream:
            print("streaming", flush=True)
            stream.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
