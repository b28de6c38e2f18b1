"""DuckDB's errors as one clear sentence each."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from carnac.core.texts import cut
from carnac.errors import CarnacError, Corrupt, Invalid, NotFound, TooLarge, Unavailable

if TYPE_CHECKING:
    import duckdb

MESSAGE_MAX = 4_000
"""Characters of a message of DuckDB that are read: names and values of a statement stand in it, however long."""
_KIND = re.compile(
    r"^(?:[A-Z][A-Za-z]*(?: [A-Z][A-Za-z]*| implemented)* Error|INTERNAL Error): ", re.DOTALL
)
_UDF = re.compile(r"^Python exception occurred while executing the UDF: (?:\w+: )?")
_UNKNOWN_COLUMN = re.compile(
    r"Referenced column (?P<quote>\"?)(?P<name>.*?)(?P=quote) (?:was )?not found", re.DOTALL
)
_NAMED_BY_AS = re.compile(
    r'Alias with name ""(.*?)"" exists, but aliases cannot|Column "(.*?)" referenced that exists in the SELECT clause',
    re.DOTALL,
)
"""Of a column that is not there, and whose name stands after AS: `SELECT x AS x … GROUP BY x`."""
_UNKNOWN_IN_TABLE = re.compile(r'"(.*?)" does not have a column named "(.*?)"', re.DOTALL)
_CANDIDATES = re.compile(
    r'Candidate (?:bindings|columns|Entries): ?(?::\s*)?(".*?"(?:, ".*?")*)', re.DOTALL
)
_UNKNOWN_FUNCTION = re.compile(r"Function with name (\S+) does not exist", re.IGNORECASE)
_NO_SKETCH = re.compile(
    r"argument types '__carnac_[a-z]+(?:_(hll|theta|quantiles))?\((\w+?)(?:_LITERAL)?\b"
)
_DAMAGED = re.compile(r"(?:footer|magic bytes|metadata|thrift|corrupt).*\.parquet", re.IGNORECASE)
_NO_MEMORY = re.compile(
    r"bad.alloc|Allocation failure|malloc of size|realloc of size|Cannot resize vector"
)
_HINT = re.compile(r'Did you mean "(.*?)"', re.DOTALL)

_PATTERN = re.compile(
    r"(no argument for repetition operator|missing argument to repetition operator|bad repetition operator"
    r"|invalid repetition size|invalid escape sequence|invalid character class(?: range)?|invalid UTF-8|missing \]"
    r"|missing \)|unexpected \)|trailing \\|invalid perl operator|invalid named capture group"
    r"|pattern too large - compile failed)(?:: (.*))?$",
    re.DOTALL,
)
"""Messages of RE2 about a regular expression. Source: `RE2::ErrorCode` and `kErrorStrings` of its `parse.cc`."""


_FORMS = {
    "cast (TIMESTAMP WITH TIME ZONE -> BIGINT)": "write epoch_ms(__time)",
    "cast (TIMESTAMP -> BIGINT)": "write epoch_ms(__time)",
    "can't be cast to the destination type VARCHAR[]": "write MV_CONTAINS(tags, 'a')",
    "'~~(VARCHAR[], ": "write MV_CONTAINS(tags, 'a'), or MV_TO_STRING(tags, ',') LIKE '%a%'",
    "unknown ordered aggregate": "write its order among its arguments: string_agg(page, ', ' ORDER BY added)",
    "'json_value(VARCHAR, STRING_LITERAL, ": "write JSON_VALUE(doc, '$.a' RETURNING BIGINT), or"
    " JSON_QUERY_ARRAY(doc, '$.a') for a list",
    "'flatten(": "write list(added) for values that are no lists",
    "arguments for PERCENTILE_": "write percentile_cont(0.5) WITHIN GROUP (ORDER BY added)",
}
"""Forms to write in place of those that DuckDB refuses without one, by a part of its message."""


def _too_large(limit_bytes: int | None) -> TooLarge:
    limit = "80 % of the machine's memory" if limit_bytes is None else f"{limit_bytes:,} bytes"
    return TooLarge(
        f"the query needs more memory than the query engine may use ({limit}); "
        "select fewer rows or groups, make shorter texts and lists, or raise query_memory_limit_bytes"
    )


def syntax_error(tree: dict[str, Any], sql: str) -> Invalid:
    """Return what `json_serialize_sql` says of a statement that it does not take."""
    if tree.get("error_type") == "not implemented":
        if "Only SELECT" in str(tree["error_message"]):
            return Invalid(
                "only SELECT statements can be run here; the store is changed by its own commands"
            )
        return Invalid(first_sentence(str(tree["error_message"])))
    message = _with_form(first_sentence(str(tree.get("error_message", ""))))
    position = str(tree.get("position", ""))
    if not position.isdigit():
        return Invalid(message)
    before = sql.encode()[: int(position)].decode("utf-8", "replace")
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Invalid(f"{message} (line {line}, column {column})", line=line, column=column)


def translate(
    error: duckdb.Error | MemoryError | RecursionError,
    *,
    memory_limit_bytes: int | None,
    columns: Iterable[str] = (),
) -> CarnacError:
    """Return the error that tells the user what to do about one of DuckDB's.

    Args:
        columns: Those that a user may have meant by an unknown one.
    """
    import duckdb

    text = cut(str(error), MESSAGE_MAX)
    match error:
        case RecursionError():
            return Invalid("the statement is nested too deeply")
        case duckdb.OutOfMemoryException():
            return _too_large(memory_limit_bytes)
        case _ if isinstance(error, MemoryError) or _NO_MEMORY.search(text):
            return _too_large(memory_limit_bytes)
        case duckdb.InterruptException():
            return Unavailable("the query was interrupted")
        case duckdb.BinderException() | duckdb.CatalogException():
            named = _unknown_name(text, columns) or _no_sketch(text)
            return named or Invalid(_with_form(first_sentence(text)))
        case duckdb.IOException():
            return _storage_failure(text)
        case duckdb.InvalidInputException() if _DAMAGED.search(text):
            return _storage_failure(text)
        case duckdb.PermissionException():
            return Invalid(
                "the query reaches for something outside of the store's data, which is not allowed"
            )
        case _:
            return Invalid(_with_form(first_sentence(text)))


def _with_form(message: str) -> str:
    return message + next((f"; {form}" for wrong, form in _FORMS.items() if wrong in message), "")


def error_of(text: str) -> duckdb.Error:
    """Return DuckDB's error of which only the message has come through Arrow's stream of rows."""
    import duckdb

    kinds: dict[str, type[duckdb.Error]] = {
        "FATAL Error": duckdb.FatalException,
        "INTERNAL Error": duckdb.InternalException,
        "INTERRUPT Error": duckdb.InterruptException,
        "IO Error": duckdb.IOException,
        "Invalid Input Error": duckdb.InvalidInputException,
        "Out of Memory Error": duckdb.OutOfMemoryException,
        "Permission Error": duckdb.PermissionException,
    }
    return kinds.get(text.partition(":")[0], duckdb.Error)(text)


def first_sentence(text: str) -> str:
    """Return the first line of a message: lower-case start, no final stop, no kind of error in front."""
    line = (
        _UDF.sub("", _KIND.sub("", text.strip()))
        .partition("\n")[0]
        .strip()
        .rstrip("!.")
        .replace("__carnac_", "")
    )
    if not line:
        return "the query failed"
    if (wrong := _PATTERN.fullmatch(line)) is not None:
        return f"a regular expression cannot be read: {wrong[1]}" + (
            f" in {wrong[2]}" if wrong[2] else ""
        )
    first_word = line.partition(" ")[0]
    return line if first_word.isupper() and len(first_word) > 1 else line[0].lower() + line[1:]


def did_you_mean(name: str, known: list[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or a list of a few known names, or no text."""
    import difflib

    by_fold = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_fold, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{by_fold[near[0]]}'?"
    if known and len(known) <= 12:
        return f"; there are {', '.join(known)}"
    return ""


def _is_compared(name: str, text: str) -> bool:
    """Whether a name is compared with in a statement, as texts are that lack their quotes: `page = Menhir`."""
    return bool(
        re.search(rf"(?:[=<>]|\bIN\s*\(|\bLIKE)\s*\"?{re.escape(name)}\b", text, re.IGNORECASE)
    )


def _unknown_name(text: str, columns: Iterable[str]) -> CarnacError | None:
    in_table = _UNKNOWN_IN_TABLE.search(text)
    column = in_table[2] if in_table else None
    if column is None:
        found = _UNKNOWN_COLUMN.search(text)
        named = None if found else _NAMED_BY_AS.search(text)
        column = found["name"] if found else named and next(filter(None, named.groups()), None)
    if column is not None:
        listed = _CANDIDATES.search(text)
        candidates = re.findall(r'"(.*?)"', listed[1]) if listed else sorted(columns)
        names = [candidate.rpartition(".")[2] for candidate in candidates]
        known = sorted(columns)
        known = ["__time", *known] if known else []
        names = known if set(names) < set(known) else names  # DuckDB tells only the likeliest
        hint = did_you_mean(column, names) if len(names) != 1 else f"; did you mean '{names[0]}'?"
        beside = " (what AS names cannot be used there)" if _NAMED_BY_AS.search(text) else ""
        quoted = (
            f"; a text stands in single quotes: '{column}'" if _is_compared(column, text) else ""
        )
        return NotFound(f"there is no column '{column}'{beside}{hint}{quoted}", column=column)
    function = _UNKNOWN_FUNCTION.search(text)
    if function is not None:
        near = _HINT.search(text)
        rest = f"; did you mean '{near[1]}'?" if near else ""
        return Invalid(f"there is no function '{function[1]}'{rest}", function=function[1])
    return None


def _no_sketch(text: str) -> Invalid | None:
    """Return what to write where a function of sketches is given something else; None: that is not the matter."""
    found = _NO_SKETCH.search(text)
    if found is None:
        return None
    kind = found[1] or "quantiles"
    made = {"hll": "DS_HLL(page)", "theta": "DS_THETA(page)"}.get(
        kind, "DS_QUANTILES_SKETCH(added)"
    )
    return Invalid(
        f"{found[2]} is no sketch of the kind {kind}: name a column of such sketches, or write {made}"
    )


def _storage_failure(text: str) -> CarnacError:
    line = first_sentence(text)
    if "No space left" in text or "disk is full" in text.lower():
        return Unavailable(f"the query ran out of disk space for intermediate results: {line}")
    if os.strerror(errno.EMFILE) in text or os.strerror(errno.ENFILE) in text:
        return Unavailable(
            f"the query needs more open files than this process may have ({line}); raise the limit (ulimit -n)"
        )
    return Corrupt(f"a segment file cannot be read ({line}); run carnac verify")
