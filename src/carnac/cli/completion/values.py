"""Completions of options and arguments: names that the store knows. No engine and no Spark is loaded for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from carnac.cli.completion.line import option_in, words_before
from carnac.cli.session import Session
from carnac.errors import CarnacError

if TYPE_CHECKING:
    from carnac.store import Store

REVISIONS_SHOWN = 20
"""Newest revisions that are offered."""
PATIENCE_S = 2.0
"""How long somebody waits after Tab; a store that takes longer offers nothing."""

Completions = list[str | tuple[str, str]]
Completer = Callable[[typer.Context, str], Completions]


def complete_datasource(ctx: typer.Context, incomplete: str) -> Completions:
    """Return the datasources that begin so."""
    return _from_store(
        ctx, incomplete, lambda store: [(info.name, "") for info in store.datasources()]
    )


def complete_tag(ctx: typer.Context, incomplete: str) -> Completions:
    """Return the tags that begin so, with their revisions."""
    return _from_store(ctx, incomplete, _tags)


def complete_moment(ctx: typer.Context, incomplete: str) -> Completions:
    """Return the tags and the newest revisions that begin so, with what they are."""
    return _from_store(ctx, incomplete, lambda store: [*_tags(store), *_revisions(store)])


def complete_lookup(ctx: typer.Context, incomplete: str) -> Completions:
    """Return the lookups that begin so."""
    return _from_store(ctx, incomplete, lambda store: [(name, "") for name in store.lookups()])


def complete_writer(ctx: typer.Context, incomplete: str) -> Completions:
    """Return the writers that have a position and begin so."""
    return _from_store(
        ctx, incomplete, lambda store: [(one.writer, "") for one in store.positions()]
    )


def complete_word(*words: str) -> Completer:
    """Return what completes to one of the words."""

    def complete(_ctx: typer.Context, incomplete: str) -> Completions:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _tags(store: Store) -> list[tuple[str, str]]:
    return [(tag.name, f"revision {tag.revision}") for tag in store.tags()]


def _revisions(store: Store) -> list[tuple[str, str]]:
    return [
        (str(one.revision), one.message or one.kind.value)
        for one in store.log(limit=REVISIONS_SHOWN)
    ]


def _from_store(
    ctx: typer.Context, incomplete: str, load: Callable[[Store], list[tuple[str, str]]]
) -> Completions:
    """Return what begins so of what the store knows; nothing, in silence, where no store answers."""
    session = ctx.find_object(Session) or Session()
    session.store_name = option_in(words_before(os.environ) or [], "--store")
    with suppress(CarnacError, OSError), _at_once(), session.open_store() as store:
        return [
            (name, words.partition("\n")[0]) if words else name
            for name, words in load(store)
            if name.startswith(incomplete)
        ]
    return []


@contextmanager
def _at_once() -> Iterator[None]:
    """End the process, which offers nothing then, if what is done takes longer than somebody waits."""
    timer = threading.Timer(PATIENCE_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
