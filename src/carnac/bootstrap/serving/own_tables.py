"""A cluster as somebody has it in files: a table of segments or Druid's server view, and a table of servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carnac.core.balancing.live.picture import LiveSegment, ServerView
from carnac.core.balancing.plan.cluster import DEFAULT_TIER
from carnac.core.balancing.plan.rules import RuleSet, load_forever, parse_rules, rule_set
from carnac.core.json_text import parse_json
from carnac.core.texts import FILE_MAX, at_most, short
from carnac.core.time.intervals import Interval, parse_instant, parse_interval
from carnac.errors import Invalid, NotFound

SEGMENT_COLUMNS = ("segment", "datasource", "start", "end", "size", "server")
SERVER_COLUMNS = ("server", "capacity")
_TRUE = {"true", "1", "yes"}
_BYTES = re.compile("[0-9]{1,18}")


def load_own_cluster(
    segments: Path, servers: Path | None = None, rules: Path | None = None
) -> tuple[Sequence[LiveSegment], Sequence[ServerView], RuleSet]:
    """Return the segments, servers and rules of a cluster as files describe it.

    Args:
        segments: A table with a row for each segment on each server (`SEGMENT_COLUMNS`; no server: it is on none), or
            the JSON of Druid's `serverview`.
        servers: A table with `SERVER_COLUMNS`, and `tier` and `decommissioning` if there are such; None: as the server
            view says.
        rules: A JSON list of rules, or an object of such lists by datasource; None: each tier keeps as many copies as
            it has at most of a segment.

    Raises:
        NotFound: There is no such file.
        Invalid: One of the files does not have the form that it must have.
    """
    if segments.suffix.lower() == ".json":
        live, held, known = _of_view(segments)
    else:
        live, held = _of_table(segments)
        known = {}
    if servers is not None:
        known = _servers_of(servers)
    unknown = sorted({name for names in held.values() for name in names} - known.keys())
    if unknown:
        raise Invalid(
            f"nothing is said of server {unknown[0]}; give a table of servers with their capacities with --servers"
        )
    views = [
        ServerView(
            server_id=name,
            tier=facts.tier,
            capacity_bytes=facts.capacity_bytes,
            is_decommissioning=facts.is_decommissioning,
            loaded=frozenset(key for key, names in held.items() if name in names),
        )
        for name, facts in sorted(known.items())
    ]
    chosen = _copies_as_they_are(views) if rules is None else load_rules(rules)
    return list(live.values()), views, chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    capacity_bytes: int
    tier: str = DEFAULT_TIER
    is_decommissioning: bool = False


def _of_view(
    path: Path,
) -> tuple[dict[str, LiveSegment], dict[str, set[str]], dict[str, _Host]]:
    value = _read_json(path)
    live: dict[str, LiveSegment] = {}
    held: dict[str, set[str]] = {}
    hosts: dict[str, _Host] = {}
    try:
        for one in value:
            segment = one["segment"]
            name = str(segment["identifier"])
            live[name] = LiveSegment(
                segment_id=name,
                datasource=str(segment["dataSource"]),
                chunk=parse_interval(str(segment["interval"])),
                partition=int(segment["shardSpec"]["partitionNum"]),
                size_bytes=_whole(segment["size"], f"size of segment {short(name)} in {path}"),
            )
            held[name] = {str(server["name"]) for server in one["servers"]}
            for server in one["servers"]:
                hosts[str(server["name"])] = _Host(
                    capacity_bytes=_whole(server["maxSize"], f"maxSize of a server in {path}"),
                    tier=str(server["tier"]),
                )
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(
            f"{path} is no server view: {error!r}; give the answer of …/intervals/…/serverview as it is",
            path=str(path),
        ) from None
    return live, held, hosts


def _of_table(path: Path) -> tuple[dict[str, LiveSegment], dict[str, set[str]]]:
    rows = _rows(path, SEGMENT_COLUMNS)
    live: dict[str, LiveSegment] = {}
    held: dict[str, set[str]] = {}
    for number, row in enumerate(rows, start=1):
        where = f"row {number} of {path}"
        if row["segment"] is None or row["datasource"] is None:
            raise Invalid(f"{where} names no segment or no datasource")
        name = str(row["segment"])
        size = _whole(row["size"], f"size in {where}")
        chunk = Interval(_instant(row["start"], where), _instant(row["end"], where))
        live[name] = LiveSegment(
            segment_id=name,
            datasource=str(row["datasource"]),
            chunk=chunk,
            partition=0,
            size_bytes=size,
        )
        held.setdefault(name, set())
        if row["server"] not in (None, ""):
            held[name].add(str(row["server"]))
    return live, held


def _servers_of(path: Path) -> dict[str, _Host]:
    found: dict[str, _Host] = {}
    for number, row in enumerate(_rows(path, SERVER_COLUMNS), start=1):
        where = f"row {number} of {path}"
        if row["server"] is None:
            raise Invalid(f"{where} names no server")
        found[str(row["server"])] = _Host(
            capacity_bytes=_whole(row["capacity"], f"capacity in {where}"),
            tier=str(row.get("tier") or DEFAULT_TIER),
            is_decommissioning=str(row.get("decommissioning") or "").lower() in _TRUE,
        )
    return found


def _copies_as_they_are(views: Iterable[ServerView]) -> RuleSet:
    copies: dict[str, dict[str, int]] = {}
    for view in views:
        tier = copies.setdefault(view.tier, {})
        for segment_id in view.loaded:
            tier[segment_id] = tier.get(segment_id, 0) + 1
    most = {tier: max(counts.values(), default=1) for tier, counts in copies.items()}
    return RuleSet(default=(load_forever(most),))


def load_rules(path: Path) -> RuleSet:
    """Return the rules of a file: a JSON list for all datasources, or an object of lists, `_default` among them.

    Raises:
        NotFound: There is no such file.
        Invalid: The file holds no rules.
    """
    value = _read_json(path)
    if not isinstance(value, Mapping):
        return RuleSet(default=parse_rules(value))
    return rule_set({str(name): parse_rules(rules) for name, rules in value.items()})


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            data = at_most(stream.read, str(path))
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", path=str(path)) from None
    return parse_json(data, f"file {path}", limit=FILE_MAX)


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    from carnac.console.cloud_table import read_table

    rows: list[dict[str, Any]] = read_table(path, needed).to_pylist()
    return rows


def _whole(value: object, what: str) -> int:
    if isinstance(value, str) and _BYTES.fullmatch(value):
        return int(value)  # another row's value is none, so the whole column was read as texts
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Invalid(
            f"the {what} is {short(value)}; it must be a whole number of bytes, 0 or more"
        )
    return value


def _instant(value: object, where: str) -> int:
    if isinstance(value, bool) or value is None:
        raise Invalid(f"{where} says no time where the segment starts or ends")
    if isinstance(value, int):
        return value
    stamp = getattr(value, "isoformat", None)
    return parse_instant(str(value) if stamp is None else stamp())
