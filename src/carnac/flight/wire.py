"""The forms of data on the wire: messages in MessagePack, segments as their records, small tables as Arrow streams.

The sender may be anybody. A message that does not read as stated is Invalid, and no value is believed that is not
checked here or by the function that is called with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict, TypeVar, cast

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from carnac.core.segments.record import dump_segment, load_segment
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.errors import Corrupt, Invalid
from carnac.ports.memo import Memo
from carnac.ports.queries import Keeping, LeafReport, LeafRequest, LeafSlice
from carnac.ports.serving import Inventory

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.segments.segment import Segment

VERSION: Final = 4
"""Raised when a message changes so that an older reader would misread it."""
BODY_MAX_BYTES = 256 << 20
"""Maximum size of a request, with its small tables."""
SEGMENTS_MAX = 100_000
"""Maximum number of segments of a request."""
ASSIGN_STEP = 5_000
"""Segments that a client assigns by one request."""
SQL_MAX_CHARS = 16 << 20
RECORDS_MAX = 10_000
"""Records of segments that are kept beside their segments, in each direction."""
RECORDS_CHARS = 16 << 20
TABLES_MAX = 1_000
NAME_MAX_CHARS = 1_000
"""Maximum length of ids and names."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Message = TypeVar("Message", bound=Struct | Inventory)
Clip = list[tuple[int, int]] | None


class Asked(Struct, kw_only=True, forbid_unknown_fields=True):
    """The common fields of all requests.

    Attributes:
        version: Version of the messages.
        server_id: The server that is meant; empty: any that is there.
        store_id: Store whose server is meant; empty: any store.
        token: Proof that a process of the cluster asks, if the store has users.
    """

    version: int
    server_id: str
    store_id: str
    token: str = ""


AskedOf = TypeVar("AskedOf", bound=Asked)


class Head(TypedDict):
    """The values of what all requests begin with."""

    version: int
    server_id: str
    store_id: str
    token: NotRequired[str]


class RunAsked(Asked, kw_only=True):
    """A leaf request; segments are records with their clips, tables are Arrow streams."""

    query_id: str
    revision: int
    sql: str
    view: str
    columns: dict[str, ColumnType]
    segments: list[tuple[str, Clip]]
    tables: dict[str, bytes]
    timeout_ms: int | None
    skips_missing: bool
    uses_kept: bool
    populates_kept: bool
    is_explained: bool = False


class AssignAsked(Asked, kw_only=True):
    """Segments to load, as records, in order."""

    segments: list[str]
    fence: int
    number: int


class UnassignAsked(Asked, kw_only=True):
    """Segments to forget."""

    segment_ids: list[str]
    fence: int
    number: int


class InventoryAsked(Asked, kw_only=True):
    """A request for the inventory, or for its changes."""

    epoch: str
    since: int
    wait_ms: int


class CancelAsked(Asked, kw_only=True):
    """A query to stop."""

    query_id: str


class Done(Struct, kw_only=True):
    """An answer that says no more than which server gave it."""

    server_id: str


class ReportTold(Done, kw_only=True):
    """The report beside the last of a leaf's batches."""

    slices: list[tuple[str, Clip]]
    missing: dict[str, str]
    damaged: list[str]
    cold: int
    kept: int
    rows: int
    is_whole: bool


_SENT: Memo[str, tuple[Segment, str]] = Memo(
    values_max=RECORDS_MAX, weight_max=RECORDS_CHARS, weigh=lambda _, found: len(found[1])
)
"""Segments with their records, by their ids."""
_RECEIVED: Memo[str, Segment] = Memo(
    values_max=RECORDS_MAX, weight_max=RECORDS_CHARS, weigh=lambda text, _: len(text)
)
"""Segments, by their records."""
_ENCODER = Encoder()
_DECODERS: Mapping[type, Decoder[object]] = {
    kind: Decoder(kind)
    for kind in (
        RunAsked, AssignAsked, UnassignAsked, InventoryAsked, CancelAsked,
        Done, Inventory, ReportTold,
    )
}  # fmt: skip


def dump(message: Struct | Inventory) -> bytes:
    """Return the bytes of a message; an inventory is one as it is."""
    return _ENCODER.encode(message)


def check_size(size_bytes: int) -> None:
    """Refuse a message that is too large.

    Raises:
        Invalid: It is.
    """
    if size_bytes > BODY_MAX_BYTES:
        raise Invalid(
            f"a request of {size_bytes:,} bytes is too large; the most is {BODY_MAX_BYTES:,}"
        )


def load(kind: type[Message], body: bytes) -> Message:
    """Return the message of some bytes.

    Raises:
        Invalid: They are no such message, or too many.
    """
    check_size(len(body))
    try:
        message = cast("Message", _DECODERS[kind].decode(body))
    except (MsgspecError, ValueError, RecursionError, MemoryError) as error:
        raise Invalid(
            f"this is no {kind.__name__} of version {VERSION} ({error}); both sides need the same version of Carnac"
        ) from error
    if isinstance(message, Asked) and message.version != VERSION:
        raise Invalid(
            f"a request has version {message.version}, and this server speaks version {VERSION}; "
            "both sides need the same version of Carnac"
        )
    return message


def dump_run(request: LeafRequest, head: Head) -> bytes:
    """Return the bytes of a leaf request."""
    return dump(
        RunAsked(
            **head,
            **_alike(request),
            columns=dict(request.columns),
            segments=[(text_of(one.segment), dump_clip(one.clip)) for one in request.slices],
            tables={name: _dump_table(table) for name, table in request.tables.items()},
            uses_kept=request.keeping.use,
            populates_kept=request.keeping.populate,
        )
    )


def read_run(asked: RunAsked) -> LeafRequest:
    """Return the leaf request of a message.

    Raises:
        Invalid: It is too large in some way, or a record, a clip or a table does not read.
    """
    _limit("segments", len(asked.segments), SEGMENTS_MAX)
    _limit("small tables", len(asked.tables), TABLES_MAX)
    _limit("characters of SQL", len(asked.sql), SQL_MAX_CHARS)
    for name in (asked.query_id, asked.view, *asked.tables, *asked.columns):
        _limit("characters of a name", len(name), NAME_MAX_CHARS)
    for name in (asked.view, *asked.tables):
        if not _PLAIN_NAME.fullmatch(name):
            raise Invalid(
                f"'{name}' is no name of a view or a small table in a request: letters, digits and _"
            )
    if asked.timeout_ms is not None and asked.timeout_ms < 0:
        raise Invalid("the time limit of a leaf request is not negative")
    return LeafRequest(
        **_alike(asked),
        columns=asked.columns,
        slices=[
            LeafSlice(
                segment=_RECEIVED.get(text, partial(read_segment, text)), clip=read_clip(clip)
            )
            for text, clip in asked.segments
        ],
        tables={name: _read_table(name, body) for name, body in asked.tables.items()},
        keeping=Keeping(use=asked.uses_kept, populate=asked.populates_kept),
    )


def _alike(request: LeafRequest | RunAsked) -> dict[str, Any]:
    """Return the fields of a leaf request that travel as they are."""
    names = "query_id revision sql view timeout_ms skips_missing is_explained"
    return {name: getattr(request, name) for name in names.split()}


def read_segments(texts: Sequence[str]) -> list[Segment]:
    """Return the segments of records.

    Raises:
        Invalid: There are too many, or one does not read.
    """
    _limit("segments", len(texts), SEGMENTS_MAX)
    return [read_segment(text) for text in texts]


def text_of(segment: Segment) -> str:
    """Return the record of a segment, written once while the segment stays in use."""
    known, text = _SENT.find(segment.segment_id) or (None, "")
    if known is not segment:  # another one of that id may be told otherwise
        text = dump_segment(segment)
        _SENT.keep(segment.segment_id, (segment, text))
    return text


def read_segment(text: str) -> Segment:
    """Return the segment of a record that somebody sent.

    Raises:
        Invalid: It does not read, or says what cannot be.
    """
    try:
        segment = load_segment(text)
    except Corrupt as error:
        raise Invalid(f"a request has a segment that does not read: {error.message}") from error
    _limit("characters of a segment's id", len(segment.segment_id), NAME_MAX_CHARS)
    if segment.size_bytes < 0:
        raise Invalid(f"segment {segment.segment_id} of a request has a negative size")
    return segment


def dump_clip(clip: IntervalSet | None) -> Clip:
    """Return a clip as it is sent."""
    return None if clip is None else [(one.start_ms, one.end_ms) for one in clip]


def read_clip(clip: Clip) -> IntervalSet | None:
    """Return a clip that was sent.

    Raises:
        Invalid: An interval ends before it begins.
    """
    return None if clip is None else interval_set(Interval(start, end) for start, end in clip)


def dump_report(report: LeafReport) -> bytes:
    """Return the bytes of a leaf's report."""
    return dump(
        ReportTold(
            server_id=report.server_id,
            slices=[(segment_id, dump_clip(clip)) for segment_id, clip in report.slices],
            missing=dict(report.missing),
            damaged=list(report.damaged),
            cold=report.cold,
            kept=report.kept,
            rows=report.rows,
            is_whole=report.is_whole,
        )
    )


def fill_report(report: LeafReport, body: bytes) -> None:
    """Complete a report with what the leaf said at its end.

    Raises:
        Invalid: That does not read.
    """
    told = load(ReportTold, body)
    report.server_id = told.server_id
    report.slices = [(segment_id, read_clip(clip)) for segment_id, clip in told.slices]
    report.missing, report.damaged = told.missing, told.damaged
    report.cold, report.kept = told.cold, told.kept
    report.rows, report.is_whole = told.rows, told.is_whole


def _dump_table(table: object) -> bytes:
    import pyarrow as pa

    given = cast("pa.Table", table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, given.schema) as writer:
        writer.write_table(given)
    return bytes(sink.getvalue().to_pybytes())


def _read_table(name: str, body: bytes) -> pa.Table:
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)  # the bytes may be anybody's, and reading checks lengths alone
        table = _without_dictionaries(table)
        table.validate(full=True)
        for field in table.schema:
            _check_field(field)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        first_line = str(error).partition("\n")[0]
        raise Invalid(
            f"small table '{name}' of a request is no Arrow stream: {first_line}"
        ) from error
    return table


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table of plain values, since Arrow validates no words of dictionaries."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, field.name, plain)
    return table


def _check_field(field: pa.Field) -> None:
    """Refuse a column, or a part of one, of which Arrow does not check everything.

    Raises:
        ValueError: Its name is no text, or it has a dictionary inside.
    """
    import pyarrow as pa

    _ = field.name  # decoded here
    if pa.types.is_dictionary(field.type):
        raise ValueError(f"column {field.name} has a dictionary inside")
    for index in range(field.type.num_fields):
        _check_field(field.type.field(index))


def _limit(what: str, number: int, most: int) -> None:
    if number > most:
        raise Invalid(f"a request has {number:,} {what}; the most is {most:,}")
