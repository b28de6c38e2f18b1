"""Settings: data only, validated once, read from `carnac.toml` and `CARNAC_*`.

An environment variable wins over the file, a caller's own value over both. The file is the one named by
`CARNAC_CONFIG`, else `carnac.toml` in the working directory, if there is one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Secret, ValidationError

from carnac.core.json_text import check_shape, parse_json
from carnac.core.redaction import show_settings, show_url
from carnac.core.setting_bounds import require_within_reason
from carnac.core.texts import at_most, line_of_key
from carnac.errors import Invalid

DAY_MS = 86_400_000
PREFIX = "CARNAC_"
_NO_SETTINGS = frozenset({PREFIX + "CONFIG", PREFIX + "JDK_HOME"})
"""Variables that are not settings, and are read all the same."""
NICENESS = 10
"""Unix nice value of a Spark that nobody waits for: about a tenth of what another process gets where both want all."""

_IN_JSON = {
    "spark_conf": "object of texts",
    "query_lanes": "object of whole numbers",
    "tier_aliases": "object of lists of texts",
    **dict.fromkeys(("http_hosts", "http_input_roots", "http_spark_conf"), "list of texts"),
}
"""The names of these settings in the environment."""


class SecretUrl(Secret[str]):
    """A URL or a path that may hold a password: `get_secret_value` says it, anything else shows it without."""

    def _display(self) -> str:
        return show_url(self.get_secret_value())


def reveal(secret: SecretUrl | None) -> str | None:
    """Return what a secret is; None of none."""
    return None if secret is None else secret.get_secret_value()


class SparkConf(Secret[dict[str, str]]):
    """Settings of Spark, of which some are secrets: `get_secret_value` says them, anything else hides those."""

    def _display(self) -> str:
        return str(show_settings(self.get_secret_value()))


class Settings(BaseModel):
    """Everything that can be set. Each field is `CARNAC_<NAME>` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: SecretUrl = Field(
        default=SecretUrl("carnac-store"),
        description="The store: a directory, or the URL of its metadata (`postgresql://…`, `sqlite:///…`).",
    )
    deep_storage: SecretUrl | None = Field(
        default=None,
        description="Where segment files go when a store is made: a directory or URL (`s3://…`). Default: in the "
        "store's directory. Remembered by the store.",
    )
    overlord: SecretUrl | None = Field(
        default=None,
        description="URL of an overlord that `carnac task` asks, in place of the metadata store.",
    )
    spark_master: str = Field(default="local[*]", description="Spark master for data jobs.")
    spark_remote: SecretUrl | None = Field(
        default=None,
        description="Spark Connect URL (`sc://host:port`); wins over the master. Needs `carnac[connect]`.",
    )
    spark_conf: SparkConf = Field(
        default=SparkConf({}),
        description="More Spark settings, by name (a table in the file, JSON in the environment).",
    )
    spark_niceness: int | None = Field(
        default=None,
        ge=0,
        le=19,
        description="By how much the processes of a Spark on this machine give way to others (Unix nice value). "
        f"Default: {NICENESS} for compaction that nobody waits for (`carnac compact --auto`, tasks of compaction in "
        "processes of their own), else 0.",
    )
    spark_deploy_mode: Literal["client", "cluster"] = Field(
        default="client",
        description="Place of a task's driver under `spark_submit`: beside the overlord, or inside the cluster.",
    )
    query_threads: int | None = Field(
        default=None, ge=1, le=1_024, description="Threads of embedded queries. Default: all cores."
    )
    query_memory_limit_bytes: int | None = Field(
        default=None,
        ge=1 << 26,
        description="Memory limit of the embedded query engine. On Linux the kernel enforces it for everything a "
        "statement allocates. A result may take half of it. Default: 80 % of the machine.",
    )
    query_hot_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Memory of the embedded query engine, within its limit, for segments that are read often; 0 "
        "keeps none. Default: an eighth of the limit.",
    )
    query_timeout_ms: int = Field(
        default=300_000, ge=0, description="Time limit of a query, in milliseconds; 0: no limit."
    )
    query_gather_rows: int = Field(
        default=20_000_000,
        ge=1,
        description="Most rows that a broker gathers for a statement that historicals cannot answer alone.",
    )
    query_gather_bytes: int = Field(
        default=1 << 30, ge=1, description="Maximum size of these rows, in bytes of Arrow's form."
    )
    query_part_bytes: int = Field(
        default=32 << 20,
        ge=0,
        description="Bytes of a query's files that one historical reads before another one is asked, because asking"
        " and merging cost more than reading a little. 0: all share each query.",
    )
    query_kept_bytes: int = Field(
        default=256 << 20,
        ge=0,
        description="Memory for kept partial results of statements, at a historical and in a process that reads "
        "segments itself; at most a quarter of `query_memory_limit_bytes`. 0 keeps none.",
    )
    query_kept_result_bytes: int = Field(
        default=16 << 20, ge=1, description="Maximum size of one such kept result."
    )
    query_spark: Literal["never", "asked", "auto"] = Field(
        default="asked",
        description="Statements that a broker runs on Spark: none; those that ask for it (`engine`); or also those "
        "that would gather more at the broker than `query_gather_rows` and `query_gather_bytes` allow.",
    )
    query_spark_warm: bool = Field(
        default=False,
        description="Whether a broker starts Spark when it starts, not with the first statement that needs it.",
    )
    query_async_bytes: int = Field(
        default=1 << 30, ge=1, description="Maximum size of an asynchronous statement's rows."
    )
    query_async_retention_ms: int = Field(
        default=DAY_MS,
        ge=0,
        description="Time that the rows of an asynchronous statement are kept.",
    )
    avatica_connections_max: int = Field(
        default=25, ge=1, description="Connections of JDBC that a broker keeps open."
    )
    avatica_statements_max: int = Field(
        default=4, ge=1, description="Open statements of one of them."
    )
    avatica_idle_ms: int = Field(
        default=300_000, ge=1_000, description="Time after which one that nobody uses is closed."
    )
    query_slots: int = Field(
        default=16, ge=1, description="Queries that a broker runs at once; the others wait."
    )
    query_queue_max: int = Field(
        default=1_000,
        ge=0,
        description="Maximum number of queries that wait at a broker; others are told when to retry (429).",
    )
    query_lanes: Mapping[str, int] = Field(
        default={},
        description="Maximum number of slots for the queries of each lane, by name of the lane (a table in the "
        "file, JSON in the environment). A query names its lane in its context.",
    )
    query_log: str | None = Field(
        default=None,
        description="Query log of a broker: a file with one line for each query, on the broker's machine. Default: "
        "`query-log.jsonl` beside the metadata file, else in the directory for temporary files.",
    )
    query_log_limit_bytes: int = Field(
        default=64 << 20,
        ge=0,
        description="Maximum size of the query log; of a longer one at least the last half is kept. 0: no query log.",
    )
    verify_reads: Literal["once", "never"] = Field(
        default="once",
        description="Whether a process checks a segment file against its record before it reads it the first time.",
    )
    lease_ttl_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=DAY_MS,
        description="Time that a lease outlives a reader or writer that died without releasing it.",
    )
    force_time_chunk_lock: bool | None = Field(
        default=None,
        description="Whether tasks whose context does not say `forceTimeChunkLock` lock whole time chunks. Default:"
        " no; appends block nobody, and replacements lock the segments that they replace.",
    )
    task_runner: Literal["in_process", "process", "spark_submit"] = Field(
        default="process",
        description="Runner of the attempts of tasks: a thread of the overlord, a child process with a Spark driver"
        " of its own, or `spark-submit` to `spark_master`.",
    )
    task_logs: str | None = Field(
        default=None,
        description="Directory of task logs, on the machine of the overlord. Default: `task-logs` beside the "
        "metadata file, else in the directory for temporary files.",
    )
    task_log_limit_bytes: int = Field(
        default=16 << 20,
        ge=1 << 10,
        description="Maximum size of the log of one attempt; of a longer one at least the last half is kept.",
    )
    task_slots: int = Field(
        default=4,
        ge=1,
        description="Slots of the leading overlord for tasks that run at the same time; most tasks take one.",
    )
    task_start_timeout_ms: int = Field(
        default=300_000,
        ge=1_000,
        description="Time limit from the start of a task's process to its first sign of life; then `lease_ttl_ms`.",
    )
    task_retention_ms: int = Field(
        default=7 * DAY_MS,
        ge=0,
        description="Time that finished tasks are kept, with their reports and logs.",
    )
    overlord_period_ms: int = Field(
        default=1_000, ge=10, description="Pause between two rounds of an overlord."
    )
    overlord_upkeep_period_ms: int = Field(
        default=3_600_000,
        ge=1_000,
        description="Pause between two rounds of upkeep by the leader: it forgets old tasks and collects garbage.",
    )
    scrub_bytes_per_s: int = Field(
        default=10 << 20,
        ge=0,
        description="Bytes of segment files that the leading overlord, and each historical of its own, reads per "
        "second on average to find damage. An overlord begins a round at most once a day. 0: none.",
    )
    task_stop_grace_ms: int = Field(
        default=10_000,
        ge=0,
        description="Time that the process of a cancelled task may take to end before it is killed.",
    )
    http_hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names under which an overlord answers, besides those of the loopback interface, its own "
        "address and that of `--url`. Web pages of these hosts may submit tasks (JSON in the "
        "environment).",
    )
    http_input_roots: tuple[str, ...] | None = Field(
        default=None,
        description="Folders and URLs (`s3://bucket/folder`) below which tasks that come over HTTP may read their "
        "input (JSON in the environment). Default: the folder of the store and the overlord's working directory if it "
        "listens at the loopback interface, else nothing.",
    )
    http_spark_conf: tuple[str, ...] = Field(
        default=(),
        description="Spark settings that tasks which come over HTTP may set, besides those of cluster resources: "
        "names, or prefixes that end with `*` (JSON in the environment).",
    )
    tier_aliases: Mapping[str, tuple[str, ...]] = Field(
        default={},
        description="Names that load rules may use for several tiers (JSON in the environment): each of the tiers gets "
        "as many copies as the rule says for the name.",
    )
    moves_max: int = Field(
        default=100, ge=0, description="Segments of a tier that the coordinator moves at a time."
    )
    load_queue_max: int = Field(
        default=500, ge=1, description="Maximum number of loads queued at one historical."
    )
    load_replicas_max: int | None = Field(
        default=None,
        ge=0,
        description="Maximum number of further copies of segments that load in a tier at a time; first copies are "
        "never delayed. Default: one in twenty of all segments, at least 100.",
    )
    load_patience_ms: int = Field(
        default=600_000,
        ge=1,
        description="Time that brokers are not told of a revision because segments of it are not loaded on any "
        "server. After that these segments are read from deep storage.",
    )
    restart_grace_ms: int = Field(
        default=60_000,
        ge=0,
        description="Time that the coordinator waits for a historical that has gone, before its copies are made "
        "elsewhere. A segment without another loaded copy does not wait.",
    )
    historical_folder: str = Field(
        default="carnac-historical",
        description="Folder in which a historical keeps its assigned segments; one process at a time may use it.",
    )
    historical_capacity_bytes: int = Field(
        default=10 << 30, ge=1_024, description="Maximum size of a historical's segments, in bytes."
    )
    historical_tier: str = Field(
        default="_default_tier",
        min_length=1,
        max_length=200,
        description="The tier of a historical: load rules say how many copies of a segment a tier holds.",
    )
    historical_grace_ms: int = Field(
        default=60_000,
        ge=0,
        description="Time that running statements get to finish when a historical stops.",
    )
    flight_port: int = Field(
        default=0,
        ge=0,
        le=65_535,
        description="Port at which a historical listens for Arrow Flight; 0: one that is free.",
    )
    flight_sql_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of a broker's Flight SQL (ADBC, JDBC); 0: one that is free. Default: none.",
    )
    load_threads: int = Field(
        default=4, ge=1, le=64, description="Segments that a historical loads at a time."
    )
    load_bytes_per_s: int = Field(
        default=0,
        ge=0,
        description="Maximum rate of loading at a historical, in bytes per second over all segments; 0: no limit.",
    )
    compaction_task_slots: int = Field(
        default=2, ge=1, description="Compaction tasks that run at a time."
    )
    compaction_cost_capacity_bytes: int = Field(
        default=64 << 30,
        ge=1,
        description="Maximum total cost of the running tasks of compaction: bytes to read, and a little for each "
        "segment and group. A task that costs more runs alone.",
    )
    compaction_queue_max: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of waiting tasks of compaction; those of lowest priority are deferred.",
    )
    compaction_period_ms: int = Field(
        default=5_000,
        ge=10,
        description="Pause between two rounds of the controller of compaction.",
    )
    retention_age_ms: int = Field(
        default=7 * DAY_MS, ge=0, description="Revisions younger than this are kept."
    )
    retention_count: int = Field(
        default=100, ge=1, description="Number of newest revisions that are always kept."
    )
    retention_daily: int = Field(
        default=30, ge=0, description="Number of days (UTC) of which the last revision is kept."
    )
    batch_retention_ms: int = Field(
        default=400 * DAY_MS,
        ge=DAY_MS,
        description="Time that a published `(writer, batch)` is remembered, so that it is published once; the newest "
        "of a writer is never forgotten. Far longer than history, because batches may be replayed late.",
    )
    trash_period_ms: int = Field(
        default=DAY_MS,
        ge=0,
        description="Time that an unreferenced file stays in the trash before it is deleted.",
    )
    safety_period_ms: int = Field(
        default=DAY_MS,
        ge=0,
        description="Age from which a file without a record counts as garbage.",
    )
    quarantine_period_ms: int = Field(
        default=30 * DAY_MS, ge=0, description="Time that rejected rows are kept."
    )

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Settings:
        """Return the settings with some of them changed, and checked as all are; they hold nothing that can change.

        Raises:
            Invalid: As `load_settings`.
        """
        del deep
        return _validate({**dict(self), **(update or {})})


def load_settings(
    env: Mapping[str, str], *, directory: Path, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings from file, environment and `overrides` (None: not set), the later the stronger.

    Raises:
        Invalid: A setting is unknown or has a wrong value, or the file named does not exist or is not TOML.
    """
    own = {key: value for key, value in (overrides or {}).items() if value is not None}
    path = _file_of(env, directory)
    of_file, text = ({}, "") if path is None else _read_file(path)
    stronger = {**_read_env(env), **own}
    try:
        return _validate({**of_file, **stronger})
    except Invalid as error:
        name = str(error.ids.get("setting", "")).partition(".")[0]
        if name not in of_file or name in stronger:
            raise
        line = line_of_key(name, text)
        place = f"{path}" if line is None else f"{path}, line {line}"
        raise Invalid(f"{place}: {error.message}", **error.ids, path=str(path)) from None


def _validate(values: Mapping[str, object]) -> Settings:
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            from carnac.specs.problems import suggest

            near = suggest(name, Settings.model_fields)
            rest = near or f"; there are {', '.join(sorted(Settings.model_fields))}"
            raise Invalid(f"there is no setting '{name}'{rest}", setting=name) from None
        message = first["msg"][0].lower() + first["msg"][1:]
        raise Invalid(f"setting '{name}' is wrong: {message}", setting=name) from None
    require_within_reason(dict(settings))
    return settings


def to_environ(settings: Settings) -> dict[str, str]:
    """Return the settings, secrets too, as variables, for a process that is to have the same ones."""
    import json

    values: dict[str, str] = {}
    for name, value in settings:
        plain = value.get_secret_value() if isinstance(value, Secret) else value
        if plain is not None:
            values[PREFIX + name.upper()] = plain if isinstance(plain, str) else json.dumps(plain)
    return values


def _check_names(env: Mapping[str, str]) -> None:
    """Refuse variables that look like a setting and are none; others are not ours, such as what Kubernetes adds."""
    fields = _NO_SETTINGS.union(PREFIX + name.upper() for name in Settings.model_fields)
    strange = sorted(name for name in env if name.startswith(PREFIX) and name not in fields)
    if not strange:
        return
    from carnac.specs.problems import nearest

    for name in strange:
        near = nearest(name.removeprefix(PREFIX), Settings.model_fields)
        if near is not None:
            raise Invalid(
                f"environment variable {name} is no setting; did you mean {PREFIX}{near.upper()}?",
                setting=name,
            )


def _file_of(env: Mapping[str, str], directory: Path) -> Path | None:
    named = env.get(PREFIX + "CONFIG")
    path = Path(named) if named else directory / "carnac.toml"
    return path if named or path.is_file() else None


def _read_file(path: Path) -> tuple[dict[str, object], str]:
    """Return what a file sets, and its text."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = at_most(stream.read, f"settings file {path}")
        check_shape(text, f"settings file {path}")
        return tomllib.loads(text), text
    except OSError as error:
        raise Invalid(f"settings file {path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise Invalid(f"settings file {path} is nested too deeply") from None
    except ValueError as error:
        raise Invalid(f"settings file {path} is not TOML: {error}") from None


def _read_env(env: Mapping[str, str]) -> dict[str, object]:
    _check_names(env)
    values: dict[str, object] = {}
    for name in Settings.model_fields:
        text = env.get(PREFIX + name.upper())
        if not text:
            continue
        if name in _IN_JSON:
            try:
                values[name] = parse_json(text, PREFIX + name.upper())
            except Invalid:
                raise Invalid(f"{PREFIX}{name.upper()} must be a JSON {_IN_JSON[name]}") from None
        else:
            values[name] = text
    return values
