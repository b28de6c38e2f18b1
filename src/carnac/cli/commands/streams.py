"""`streams list | move | forget`: how far the writers of streams have read their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import LOAD, add_group, command
from carnac.cli.completion.values import complete_writer
from carnac.cli.options import Message, argument, flag, option
from carnac.cli.session import Session
from carnac.cli.tables import counted, second_ms
from carnac.core.json_form import to_json
from carnac.core.log.positions import NOWHERE, OffsetRange
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.store import Store

add_group(
    "streams",
    "Streams: how far writers have read their sources, as the log keeps it.",
    panel=LOAD,
)

Writer = Annotated[
    str, argument("WRITER", "The name that the stream has.", complete=complete_writer)
]
SOURCE_HELP = "One source, as streams list names it. Default: all."


@command("streams list", panel=LOAD, examples=["carnac streams list", "carnac streams list --json"])
def list_streams(session: Session) -> None:
    """List the position of each writer in each of its sources, and the commit that moved it last."""
    with session.open_store() as store:
        found = store.positions()
    if session.output.is_json:
        session.output.json({"streams": to_json(found)})
        return
    session.output.table(
        "writer | source | revision# | moved (UTC)! | offset",
        [
            [one.writer, one.source, str(one.revision), second_ms(one.at_ms), one.offset]
            for one in found
        ],
    )
    if not found:
        session.output.note(
            "no writer has a position; carnac supervisor submit and, in Python, store.stream start streams"
        )


@command(
    "streams move",
    panel=LOAD,
    publishes=True,
    examples=["""carnac streams move clicks "0 kafka" '{"clicks":{"0":42}}'"""],
)
def move(
    session: Session,
    writer: Writer,
    source: Annotated[str, argument("SOURCE", "A source, as streams list names it.")],
    offset: Annotated[str, argument("OFFSET", "Where to go on, as the source writes offsets.")],
    message: Message = "",
) -> None:
    """Have a stream go on from another offset: rows that it skips are never read, rows that it repeats are there twice.

    The command makes one commit, and ends a running stream of that writer.
    """
    with session.open_store() as store:
        start = _position(store, writer, source)
        published = store.move_position(
            OffsetRange(writer=writer, start=start, end={source: offset}), message=message
        )
    session.output.answer(
        {"revision": published.revision, "writer": writer, "source": source, "offset": offset},
        f"revision {published.revision}: {writer} goes on in {source} from {offset}",
    )


@command(
    "streams forget", panel=LOAD, publishes=True, examples=["carnac streams forget clicks --yes"]
)
def forget(
    session: Session,
    writer: Writer,
    *,
    source: Annotated[str | None, option("--source NAME", SOURCE_HELP)] = None,
    yes: Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")] = False,
    message: Message = "",
) -> None:
    """Forget how far a writer has read, so that a stream of its name begins anew; asks first at a terminal.

    The command makes one commit, and ends a running stream of that writer. The rows stay, so rows that are read again
    are there twice.
    """
    with session.open_store() as store:
        start = _position(store, writer, source)
        sources = counted(len(start), "source")
        if not session.allows(f"forget how far {writer} has read {sources}?", yes=yes):
            session.output.note("nothing was forgotten")
            return
        offsets = OffsetRange(writer=writer, start=start, end=dict.fromkeys(start, NOWHERE))
        published = store.move_position(
            offsets, message=message or f"forget the position of {writer}"
        )
    session.output.answer(
        {"revision": published.revision, "writer": writer, "sources": sorted(start)},
        f"revision {published.revision}: {writer} begins anew in {sources}",
    )


def _position(store: Store, writer: str, source: str | None) -> dict[str, str]:
    """Return the position of a writer, in one source or in all; raises NotFound if there is none."""
    found = store.position(writer)
    if source is None and found:
        return dict(found)
    if source is not None and source in found:
        return {source: found[source]}
    if found:
        names = ", ".join(f"'{name}'" for name in found)
        raise NotFound(
            f"writer '{writer}' has no position in '{source}'; it has one in {names}", writer=writer
        )
    writers = ", ".join(sorted({one.writer for one in store.positions()}))
    raise NotFound(
        f"writer '{writer}' has no position; {f'there are those of {writers}' if writers else 'nobody has one yet'}",
        writer=writer,
    )
