"""Options of the format, as values for each door. Spark compares their names without case."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.time.intervals import Interval, interval_set, parse_interval
from carnac.errors import Invalid
from carnac.specs.problems import suggest

COMMON = ("store", "path", "leaseMinutes")
READ = (*COMMON, "at", "interval", "columns")
READ_STREAM = (*COMMON, "columns", "startingRevision", "changes", "maxRowsPerTrigger")
_LOAD = (
    *COMMON,
    "spec",
    "time",
    "timeFormat",
    "writer",
    "message",
    "allowTypeChange",
    "allowMissing",
)
WRITE = (*_LOAD, "batch", "intervals")
WRITE_STREAM = _LOAD
_OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}
"""Those of the same options that Spark itself takes."""
_TABLES = (
    "Spark forgets the options of a table that is created with a format in Python; make a view:"
    " CREATE TEMPORARY VIEW edits USING carnac OPTIONS (store '...', path 'edits')"
)
LEASE_MINUTES = 120
LEASE_MINUTES_MAX = 24 * 60
_FLAGS = {"true": True, "false": False}


class Options:
    """The options of one door.

    Args:
        given: Options as Spark hands them over.
        known: Options that the door takes.
        door: Name of the door for messages.

    Raises:
        Invalid: An option is given that the door does not take.
    """

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], door: str) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        if "provider" in self._given:  # it is a table of Spark's catalog
            raise Invalid(_TABLES)
        by_lower = {name.lower(): name for name in known}
        for name in self._given:
            if name == "paths":  # Spark's own, where `load` is given several
                raise Invalid(
                    f"{door} takes one datasource at a time; load each, and join them with unionByName"
                )
            if name not in by_lower and name not in _OF_SPARK:
                raise Invalid(
                    f"{door} has no option '{name}'; it takes {', '.join(known)}{suggest(name, known)}"
                )

    def text(self, name: str) -> str | None:
        """Return the text of an option; None: it is not there, or empty."""
        return self._given.get(name.lower()) or None

    def number(self, name: str, *, most: int | None = None) -> int | None:
        """Return a whole number from 1 on.

        Raises:
            Invalid: It is none.
        """
        text = self.text(name)
        if text is None:
            return None
        limit = "" if most is None else f" to {most:,}"
        if not text.strip().isdecimal() or int(text) < 1 or (most is not None and int(text) > most):
            raise Invalid(f"option {name} is a whole number from 1{limit or ' on'}, not '{text}'")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether something is wanted.

        Raises:
            Invalid: It is neither true nor false.
        """
        text = self.text(name) or "false"
        if text.lower() not in _FLAGS:
            raise Invalid(f"option {name} is true or false, not '{text}'")
        return _FLAGS[text.lower()]

    def intervals(self, name: str) -> tuple[Interval, ...]:
        """Return intervals that are separated by commas, united."""
        text = self.text(name)
        return () if text is None else interval_set(map(parse_interval, text.split(","))).intervals

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return names that are separated by commas; None: there are none."""
        text = self.text(name)
        return None if text is None else tuple(one.strip() for one in text.split(","))

    @property
    def datasource(self) -> str:
        """The datasource, as `load`, `save` and `start` are given it.

        Raises:
            Invalid: It is missing.
        """
        found = self.text("path")
        if found is None:
            said = 'name the datasource, as in spark.read.format("carnac").load("edits") or .save("edits")'
            raise Invalid(said if self._given else f"{said}. {_TABLES}")
        return found

    @property
    def lease_ms(self) -> int:
        """How long a revision that is read stays readable, and written files may wait for their commit."""
        return (self.number("leaseMinutes", most=LEASE_MINUTES_MAX) or LEASE_MINUTES) * 60_000
