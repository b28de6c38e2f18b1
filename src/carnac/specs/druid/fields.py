"""Fields of Druid's that have no effect here, and replacements for those that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carnac.specs.problems import Findings, suggest

_SPARK = "Spark decides how the work is divided"
_MEMORY = "Spark manages memory"
_FILES = "segments are Parquet files"
_WAIT = "a commit is visible at once"

IGNORED_IN_TASK: dict[str, str] = {
    "id": "jobs get their own ids",
    "groupId": "jobs get their own ids",
    "resource": "Spark gives out resources",
    "dataSource": "dataSchema.dataSource says it",
    "subtaskType": _SPARK,
}

IGNORED_IN_TUNING: dict[str, str] = {
    **dict.fromkeys(
        """
        maxNumConcurrentSubTasks maxNumSubTasks maxRetry totalNumMergeTasks maxNumSegmentsToMerge splitHintSpec
        taskStatusCheckPeriodMs chatHandlerTimeout chatHandlerNumRetries numPersistThreads maxColumnsToMerge
        maxAllowedLockCount forceExtendableShardSpecs numBackgroundPersistThreads
        """.split(),
        _SPARK,
    ),
    **dict.fromkeys(
        """
        maxRowsInMemory maxBytesInMemory maxBytesPerSegment skipBytesInMemoryOverheadCheck maxPendingPersists
        appendableIndexSpec basePersistDirectory segmentWriteOutMediumFactory
        """.split(),
        _MEMORY,
    ),
    **dict.fromkeys(("indexSpec", "indexSpecForIntermediatePersists"), _FILES),
    **dict.fromkeys(
        ("pushTimeout", "publishTimeout", "awaitSegmentAvailabilityTimeoutMillis"), _WAIT
    ),
    "buildV9Directly": _FILES,
}

IGNORED_IN_DIMENSION: dict[str, str] = dict.fromkeys(
    ("createBitmapIndex", "formatSpec", "columnFormatSpec", "hasMultipleValues"), _FILES
)

IGNORED_IN_METRIC: dict[str, str] = {
    "shouldFinalize": "queries finalize sketches",
    "round": "queries round estimates",
    "maxStreamLength": "sketches grow as they need",
    "stringEncoding": "sketches hash UTF-8",
    "tgtHllType": "sketches keep 8 bits per bucket, as Spark writes them",
    "errorBoundsStdDev": "queries ask for error bounds",
}

_FORMAT = "it does not change what JSON lines mean"

IGNORED_IN_JSON: dict[str, str] = dict.fromkeys(
    ("keepNullColumns", "assumeNewlineDelimited", "useJsonNodeReader", "newlines"), _FORMAT
)

_STREAM = "Spark's Structured Streaming appends each batch once, under a writer and a batch of store.append"
_SUPERVISOR = "a supervisor submits them; post its spec to /druid/indexer/v1/supervisor (carnac supervisor submit)"
_OWN = "an overlord divides an index_parallel task itself; submit that"
INSTEAD: dict[str, str] = {
    **dict.fromkeys(("kafka", "index_kafka"), _SUPERVISOR),
    **dict.fromkeys(("kinesis", "rabbit", "index_kinesis", "index_realtime"), _STREAM),
    "index_realtime_appenderator": _STREAM,
    "index_hadoop": "Spark does the work of Hadoop; submit index_parallel",
    "query_controller": "INSERT and REPLACE are not run; submit index_parallel, or use carnac ingest",
    "query_worker": "INSERT and REPLACE are not run; submit index_parallel, or use carnac ingest",
    **dict.fromkeys(
        ("single_phase_sub_task", "partial_index_generate", "partial_index_merge"), _OWN
    ),
    "noop": "nothing need be tried out with one; carnac doctor says whether tasks can run",
    "drop": "a delete task takes an interval out of sight, carnac drop a whole datasource; revert brings them back",
    "archive": "files are moved by the rules of the object store; a kill task deletes unreferenced files",
    "move": "files stay where they were written; carnac backup copies the metadata",
    "restore": "carnac revert REVISION brings back what a commit took out of sight, while it is retained",
    "autocompact": "carnac compaction set keeps a datasource compacted",
}
"""Substitutes for Druid's other types of tasks."""

_USE_HLL = "use HLLSketchBuild"
_USE_QUANTILES = "use quantilesDoublesSketch"

METRIC_HINTS: dict[str, str] = {
    "hyperUnique": _USE_HLL,
    "cardinality": _USE_HLL,
    **dict.fromkeys(
        "approxHistogram approxHistogramFold fixedBucketsHistogram tDigestSketch momentSketch momentSketchMerge"
        " KllDoublesSketch KllFloatsSketch".split(),
        _USE_QUANTILES,
    ),
    "arrayOfDoublesSketch": "use thetaSketch and sums",
    "variance": "keep the count, the sum and the sum of squares",
    "varianceFold": "keep the count, the sum and the sum of squares",
    "javascript": "compute a column in transformSpec and aggregate that",
    "longAny": "use longFirst",
    "doubleAny": "use doubleFirst",
    "floatAny": "use floatFirst",
    "stringAny": "use stringFirst",
    "bloom": "use thetaSketch",
    "timeMin": "use longMin of a column computed from __time",
    "timeMax": "use longMax of a column computed from __time",
}

_FLAGS = {"true": True, "false": False}


class Block:
    """One object of a Druid spec, read field by field. A field that nobody reads is a typo.

    Args:
        value: The object; anything else is a problem, and reads as empty.
        path: Where it stands; empty for the task itself.
        findings: Where problems and fields without effect go.
    """

    def __init__(self, value: object, path: str, findings: Findings) -> None:
        self.path = path
        self.findings = findings
        self._fields: dict[str, Any] = {}
        self._known: set[str] = set()
        if isinstance(value, Mapping):
            self._fields = {str(key): item for key, item in value.items()}
        elif value is not None:
            findings.problem(path, f"must be an object, not {value!r}")

    def at(self, name: str) -> str:
        """Return where a field of this block stands."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is there and not read yet."""
        return name in self._fields

    def peek(self, name: str) -> Any:
        """Return the field without reading it; None if it is not there."""
        return self._fields.get(name)

    def take(self, name: str) -> Any:
        """Read a field; None if it is not there."""
        self._known.add(name)
        return self._fields.pop(name, None)

    def take_flag(self, name: str) -> bool | None:
        """Read a flag, which may be a text, as Druid takes it; None if it is not there, a problem if it is none."""
        value = self.take(name)
        found = _FLAGS.get(str(value).lower()) if isinstance(value, bool | str) else None
        if found is None and value is not None:
            self.problem(name, f"must be true or false, not {value!r}")
        return found

    def take_list(self, name: str) -> list[Any]:
        """Read a field that is a list; empty if it is not there, a problem if it is no list."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.problem(name, f"must be a list, not {value!r}")
            return []
        return list(value)

    def take_map(self, name: str) -> dict[str, Any]:
        """Read a field that is an object; empty if it is not there, a problem if it is none."""
        value = self.take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problem(name, f"must be an object, not {value!r}")
            return {}
        return {str(key): item for key, item in value.items()}

    def put(self, name: str, value: object) -> None:
        """Set a field, as if it had been written."""
        self._fields[name] = value

    def block(self, name: str) -> Block:
        """Read a field that is an object; an empty one if it is not there."""
        return Block(self.take(name), self.at(name), self.findings)

    def ignore(self, reasons: Mapping[str, str]) -> None:
        """Read the fields that have no effect, and note those that are there."""
        for name, reason in reasons.items():
            if self.has(name):
                self.note(name, reason)
            self.take(name)

    def note(self, name: str, reason: str) -> None:
        """Note that a field has no effect."""
        self.findings.ignore(self.at(name), reason)

    def problem(self, name: str, message: str) -> None:
        """Note that a field is wrong."""
        self.findings.problem(self.at(name), message)

    def rest(self) -> dict[str, Any]:
        """Read all fields that nobody has read, to be judged elsewhere."""
        rest, self._fields = self._fields, {}
        return rest

    def finish(self) -> None:
        """Note what nobody has read: Druid has no such field."""
        for name in self._fields:
            near = suggest(name, self._known)
            self.problem(name, f"unknown field{near or '; remove it'}")
        self._fields = {}
