"""Completion at the prompt: names of the store at the revision that is asked, functions, keywords, dot commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from carnac.cli.prompt.commands import DOT_COMMANDS, DotCommand, Expects
from carnac.cli.prompt.context import KEYWORDS, Context, Kind, find_context, matching, tables_of
from carnac.cli.prompt.statements import is_dot_command
from carnac.core.segments.segment import TIME_COLUMN
from carnac.errors import CarnacError
from carnac.query.functions import NAMES, TABLE_FUNCTIONS
from carnac.query.rewriting.own import OWN_FUNCTIONS

if TYPE_CHECKING:
    from carnac.store import Store

STATEMENT_MAX = 50_000
"""Characters of a statement beyond which nothing is completed: each Tab reads it from its beginning."""
REVISIONS_SHOWN = 20
"""Newest revisions that are suggested."""
LOOKUP_SCHEMA = "lookup"
FUNCTIONS = dict.fromkeys(sorted(NAMES | OWN_FUNCTIONS), "function")
_KEYWORDS = dict.fromkeys(KEYWORDS, "keyword")


class StoreNames:
    """The names that statements may have, at the revision that the prompt asks. Safe for threads.

    Args:
        at: Returns what the prompt asks at; None: the newest revision.
    """

    def __init__(self, store: Store, at: Callable[[], str | None]) -> None:
        self._store = store
        self._at = at
        self._of = lru_cache(maxsize=256)(self._load_columns)

    def datasources(self) -> dict[str, str]:
        """Return the datasources, and what they are."""
        return {info.name: "datasource" for info in self._store.datasources(at=self._at())}

    def lookups(self) -> dict[str, str]:
        """Return the lookups."""
        return dict.fromkeys(self._store.lookups(at=self._at()), "lookup")

    def columns(self, datasource: str) -> Mapping[str, str]:
        """Return the columns of a datasource with their types."""
        return self._of(datasource, self._store.resolve(self._at()).revision)

    def moments(self) -> dict[str, str]:
        """Return the tags and the newest revisions, and what they are."""
        tags = {tag.name: f"tag of revision {tag.revision}" for tag in self._store.tags()}
        commits = self._store.log(limit=REVISIONS_SHOWN)
        return tags | {str(one.revision): one.message or one.kind.value for one in commits}

    def _load_columns(self, datasource: str, revision: int) -> Mapping[str, str]:
        columns = self._store.columns(datasource, at=revision)
        return {TIME_COLUMN: "time", **columns}


class StatementCompleter(Completer):
    """Completes what is typed at the prompt; a store that does not answer completes nothing."""

    def __init__(self, names: StoreNames) -> None:
        self._names = names

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - prompt_toolkit's
    ) -> Iterable[Completion]:
        """Return what may stand at the cursor."""
        if len(document.text) > STATEMENT_MAX:
            return []
        try:
            if is_dot_command(document.text):
                return list(self._dot_command(document.text_before_cursor))
            return list(self._statement(document))
        except CarnacError:
            return []

    def _dot_command(self, before: str) -> Iterable[Completion]:
        word, space, rest = before.lstrip().partition(" ")
        if not space:
            known = {one.name: one.help for one in DOT_COMMANDS}
            return _completions(
                word, [(name, known[name]) for name in known if name.startswith(word)]
            )
        command = DotCommand.find(word)
        typed = rest.lstrip()
        if command is None or command.expects is Expects.NOTHING:
            return []
        found = (
            self._names.datasources()
            if command.expects is Expects.DATASOURCE
            else self._names.moments()
        )
        return _completions(typed, [one for one in found.items() if one[0].startswith(typed)])

    def _statement(self, document: Document) -> Iterable[Completion]:
        context = find_context(document.text_before_cursor)
        found: list[tuple[str, str]] = []
        match context.kind:
            case Kind.NOTHING:
                return []
            case Kind.TABLE:
                tables = self._names.datasources() | dict.fromkeys(TABLE_FUNCTIONS, "function")
                tables[LOOKUP_SCHEMA] = "lookups"
                found = matching(context, tables)
            case Kind.COLUMN if context.owner.lower() == LOOKUP_SCHEMA:
                found = matching(context, self._names.lookups())
            case Kind.COLUMN:
                named = tables_of(document.text, self._names.datasources())
                datasource = named.get(context.owner.lower())
                if datasource is not None:
                    found = matching(context, self._names.columns(datasource))
            case Kind.ANYTHING:
                found = self._anything(context, document.text)
        return _completions(context.typed, found)

    def _anything(self, context: Context, text: str) -> list[tuple[str, str]]:
        named = tables_of(text, self._names.datasources())
        columns: dict[str, str] = {}
        for datasource in dict.fromkeys(named.values()):
            columns |= self._names.columns(datasource)
        found = matching(context, columns)
        if context.typed.startswith('"'):
            return found
        lower = context.typed.lower()
        functions = [
            (f"{name}(", words) for name, words in FUNCTIONS.items() if name.startswith(lower)
        ]
        keywords = [
            (name, words) for name, words in _KEYWORDS.items() if name.startswith(lower.upper())
        ]
        return [*found, *keywords, *functions] if lower else [*found, *keywords]


def _completions(typed: str, found: list[tuple[str, str]]) -> list[Completion]:
    return [
        Completion(text, start_position=-len(typed), display_meta=words) for text, words in found
    ]
