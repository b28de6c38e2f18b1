"""Bugs that are planted on purpose, in the real code by its names: a simulator is worth what it finds of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from carnac.errors import Invalid


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake that somebody could make.

    Attributes:
        name: As a user says it.
        text: What is wrong then, as a phrase.
        module, path: Where: a module of Carnac, and a name in it, with dots.
        make: Returns what takes the place of what is there.
    """

    name: str
    text: str
    module: str
    path: str
    make: Callable[[Any], Any]


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _real: lambda *_args, **_named: value


def _no_requirements(real: Any) -> Any:
    def write(session: Any, publication: Any, *rest: Any) -> Any:
        return real(session, replace(publication, requirements=()), *rest)

    return write


def _acknowledged_unheard(real: Any) -> Any:
    def publish(self: Any, publication: Any, lease: Any) -> Any:
        from carnac.errors import Unavailable
        from carnac.ports import Published

        try:
            return real(self, publication, lease)
        except Unavailable:
            head = self._metadata.head()
            return Published(revision=head.revision, at_ms=head.at_ms, is_replay=False, commit=None)

    return publish


def _files_of_any_failure(real: Any) -> Any:
    @contextmanager
    def until_published(self: Any, segments: Any) -> Iterator[None]:
        from carnac.errors import Unavailable

        with real(self, segments):
            try:
                yield
            except Unavailable:
                self._remove_files(segments)
                raise

    return until_published


def _forgets_drops(real: Any) -> Any:
    return lambda shown, covers: real(shown, covers)[1:]


BUGS = (
    Bug(
        "batch-forgotten",
        "a publish does not look whether its batch was published before",
        "carnac.metadata.publish.writer",
        "_find_batch",
        _always(None),
    ),
    Bug(
        "readers-without-lease",
        "history is trimmed whatever readers hold",
        "carnac.metadata.upkeep.trimming",
        "keeping.plan_kept",
        lambda real: lambda *args, **named: real(*args, **{**named, "oldest_lease": None}),
    ),
    Bug(
        "tags-forgotten",
        "history is trimmed whatever is tagged",
        "carnac.metadata.upkeep.trimming",
        "keeping.plan_kept",
        lambda real: lambda *args, **named: real(*args, **{**named, "tagged": set()}),
    ),
    Bug(
        "writers-without-lease",
        "files without a record go, whoever is writing them",
        "carnac.store.upkeep.maintenance",
        "Maintenance._suspects",
        lambda _real: lambda self, _now_ms: list(self._deep_storage.list_files("segments")),
    ),
    Bug(
        "lost-lease-publishes",
        "a writer that lost its lease may publish",
        "carnac.metadata.publish.writer",
        "_check_lease",
        _always(None),
    ),
    Bug(
        "requirements-unchecked",
        "a publish is not held to what it requires of its inputs",
        "carnac.metadata.publish.writer",
        "write_publication",
        _no_requirements,
    ),
    Bug(
        "unheard-is-done",
        "a commit whose answer is lost counts as done",
        "carnac.store.writing.writer",
        "Writer._publish",
        _acknowledged_unheard,
    ),
    Bug(
        "unheard-is-undone",
        "the files of a commit whose answer is lost are removed",
        "carnac.store.writing.writer",
        "Writer._files_until_published",
        _files_of_any_failure,
    ),
    Bug(
        "half-a-delete",
        "a delete leaves out the first of its segments",
        "carnac.store.writing.writer",
        "drops_of",
        _forgets_drops,
    ),
    Bug(
        "revert-beside",
        "a revert brings back rows that a compaction or another revert has brought back",
        "carnac.core.log.reverting",
        "NotCovered",
        lambda real: lambda **named: real(**{**named, "pieces": type(named["pieces"])()}),
    ),
)


def find_bug(name: str) -> Bug:
    """Return the bug of a name.

    Raises:
        Invalid: There is none.
    """
    for one in BUGS:
        if one.name == name:
            return one
    raise Invalid(f"there is no bug '{name}' to plant; --bugs lists them", bug=name)


@contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """Have a bug in the code until the block ends."""
    if bug is None:
        yield
        return
    owner: Any = importlib.import_module(bug.module)
    *way, name = bug.path.split(".")
    for step in way:
        owner = getattr(owner, step)
    real = owner.__dict__[name]
    setattr(owner, name, bug.make(real))
    try:
        yield
    finally:
        setattr(owner, name, real)
