"""`init`: make a store."""

from __future__ import annotations

from typing import Annotated

from carnac.cli.app import START, command
from carnac.cli.options import argument, option
from carnac.cli.session import Session
from carnac.core.redaction import show_url
from carnac.errors import Invalid


@command(
    "init",
    panel=START,
    examples=[
        "carnac init events",
        "carnac init postgresql://me@db/events --deep-storage s3://bucket/events",
    ],
)
def init(
    session: Session,
    place: Annotated[
        str | None,
        argument("PLACE", "A directory or URL. Default: as --store and the settings say."),
    ] = None,
    deep_storage: Annotated[
        str | None,
        option("--deep-storage URL", "Place of segment files. Default: in the store's directory."),
    ] = None,
) -> None:
    """Make a store. An existing store stays as it is.

    A store is a directory with SQLite metadata and segment files, or the URL of a PostgreSQL database with the segment
    files elsewhere. The store remembers where they are.
    """
    if place is not None and session.store_name not in {None, place}:
        raise Invalid(
            f"--store says {show_url(session.store_name or '')} and the argument {show_url(place)}; give one"
        )
    if place is not None:
        session.store_name = place
    with session.open_store(create=True, deep_storage=deep_storage) as store:
        head, files = store.head(), show_url(store.deep_storage.url)
        if deep_storage is not None and not _is_same(store.deep_storage.url, deep_storage):
            raise Invalid(
                f"store {session.shown_store} is there already and keeps its files in {files}",
                store=session.shown_store,
            )
        if session.output.is_json:
            session.output.json(
                {
                    "store": session.shown_store,
                    "deep_storage": files,
                    "revision": head.revision,
                }
            )
            return
        session.output.line(f"store {session.shown_store} is ready, at revision {head.revision}")
        session.output.line(f"segment files go to {files}")


def _is_same(url: str, given: str) -> bool:
    from carnac.bootstrap.store import absolute_url
    from carnac.deep_storage import open_deep_storage

    return open_deep_storage(absolute_url(given)).url == url
