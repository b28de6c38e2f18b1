"""CSV and TSV: rows by RFC 4180, fields as text.

A row ends at a line break outside of quotes. Only lines with an odd number of quotes can begin or end in the middle of
a row; they alone are looked at one by one. Arrow then takes the fields of a whole block apart.

- A quote counts at the start of a field only; in another place it is an ordinary character.
- A row with more or fewer fields than there are columns is rejected; so is one whose quotes are not closed: of it only
  the first line is taken, and reading goes on at the next one.
- An unquoted empty field is null, a quoted one is empty text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.rows.read.lines import (
    MAX_RECORD_BYTES,
    RecordBounds,
    RecordReader,
    Records,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.rows.read.lines import Longs
    from carnac.specs.ingest.inputs import CsvFormat, TsvFormat

REASON_FIELDS = "wrong number of fields"
REASON_QUOTES = "malformed quotes"

_QUOTE = 34
_NUMBERED = re.compile(r"(.+)_\d+", re.DOTALL)


class Quotes:
    """Finds the line breaks that end rows."""

    def __init__(self, delimiter: str) -> None:
        d = re.escape(delimiter.encode())
        field = rb'(?:"(?:[^"]|"")*+"|(?!")[^' + d + rb"\n]*)"
        self._row = re.compile(field + rb"(?:" + d + field + rb")*+\r?(?:\n|\Z)")
        self._open = re.compile(rb"(?:" + field + d + rb')*"(?:[^"]|"")*\Z')

    def cut(self, data: bytes, breaks: Longs, is_last: bool) -> RecordBounds:
        """Return the line breaks that end rows. The last row is left if the block may not hold all of it."""
        import numpy as np

        quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
        every = np.arange(len(breaks), dtype=np.int64)
        if not len(quotes) or not len(breaks):
            return RecordBounds(every)
        before = np.searchsorted(quotes, breaks)
        odd = np.flatnonzero(np.diff(before, prepend=0) & 1)
        if not len(odd):
            return RecordBounds(every)
        ends = np.ones(len(breaks), dtype=np.bool_)
        bad = np.zeros(len(breaks), dtype=np.bool_)
        position = 0
        while position < len(odd):
            line = int(odd[position])
            start = int(breaks[line - 1]) + 1 if line else 0
            match = self._row.match(data, start)
            if match is not None:
                last = int(np.searchsorted(breaks, match.end() - 1))
                ends[line:last] = False
                position = int(np.searchsorted(odd, last, side="right"))
            elif (
                not is_last and len(data) - start < MAX_RECORD_BYTES and self._is_open(data, start)
            ):
                ends[line:] = False
                break
            else:
                bad[line] = True
                position += 1
        chosen = np.flatnonzero(ends)
        return RecordBounds(chosen, bad[chosen].astype(np.int64))

    def _is_open(self, data: bytes, start: int) -> bool:
        return self._open.match(data, start) is not None


class CsvReader:
    """Takes the rows of one file apart."""

    def __init__(
        self,
        stream: Any,
        name: str,
        file_format: CsvFormat | TsvFormat,
        header: Header,
        *,
        start_offset: int = 0,
        start_line: int = 1,
        end_offset: int | None = None,
    ) -> None:
        self._format = file_format
        self._name = name
        self.header = header
        self.records = RecordReader(
            stream=stream,
            name=name,
            cut=Quotes(file_format.delimiter).cut,
            malformed_reason=REASON_QUOTES,
            start_offset=start_offset,
            end_offset=end_offset,
            line=start_line,
        )
        self.skipped = 0

    def tables(self) -> Iterator[tuple[Records, pa.Table]]:
        """Yield rows: where they are, and their fields as text.

        The reader's `records.rejects` grows by rows that have another number of fields; `skipped` counts blank rows,
        the header and the rows before it.
        """
        for block in self.records:
            records = self._without_blank(self._without_header(block))
            if len(records.ends):
                yield from self._parse(records)

    def _without_header(self, records: Records) -> Records:
        if self.header.is_done or not len(records.ends):
            return records
        if any((reject.byte_offset or 0) < records.offsets[0] for reject in self.records.rejects):
            raise Invalid(f"the header of {self._name} cannot be read", url=self._name)
        rows = self.header.take_from(records)
        self.skipped += len(records.ends) - len(rows.ends)
        return rows

    def _without_blank(self, records: Records) -> Records:
        import numpy as np

        sizes = np.diff(records.ends, prepend=0)
        short = np.flatnonzero(sizes <= 2)
        if not len(short):
            return records
        blank = np.zeros(len(records.ends), dtype=np.bool_)
        for index in short.tolist():
            end = int(records.ends[index])
            blank[index] = not records.data[end - int(sizes[index]) : end].strip(b"\r\n")
        self.skipped += int(blank.sum())
        return records.only(~blank) if blank.any() else records

    def _parse(self, records: Records) -> Iterator[tuple[Records, pa.Table]]:
        """Yield the rows with the right number of fields. Where Arrow counts rows in another way, halve and look."""
        import numpy as np

        wrong: list[int] = []
        table = self._fields(records, wrong)
        if table is not None and table.num_rows + len(wrong) == len(records.ends):
            if wrong:
                bad = np.zeros(len(records.ends), dtype=np.bool_)
                bad[np.array(wrong, dtype=np.int64)] = True
                self.records.rejects += records.rejects(bad, REASON_FIELDS)
                records = records.only(~bad)
            if len(records.ends):
                yield records, table
            return
        if len(records.ends) == 1:
            self.records.rejects += records.rejects(np.ones(1, dtype=np.bool_), REASON_QUOTES)
            return
        half = np.arange(len(records.ends)) < len(records.ends) // 2
        yield from self._parse(records.only(half))
        yield from self._parse(records.only(~half))

    def _fields(self, records: Records, wrong: list[int]) -> pa.Table | None:
        import pyarrow as pa
        from pyarrow import csv

        def remember(row: Any) -> str:
            wrong.append(row.number - 1)
            return "skip"

        names = self.header.column_names
        try:
            return csv.read_csv(
                pa.BufferReader(records.data),
                read_options=csv.ReadOptions(
                    use_threads=False, column_names=names, block_size=len(records.data) + 1
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._format.delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=remember,
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=["", *self._format.null_values],
                ),
            )
        except pa.ArrowInvalid:
            return None


class Header:
    """Names of the columns: given, or in the first row after those that are skipped.

    Args:
        columns: The names, where the rows that follow come after the header; empty: they come with it.
    """

    def __init__(
        self, name: str, file_format: CsvFormat | TsvFormat, columns: tuple[str, ...] = ()
    ) -> None:
        self._name = name
        self._delimiter = file_format.delimiter
        self._to_skip = 0 if columns else file_format.skip_header_rows
        self._find = file_format.header and not columns
        self._columns = None if self._find else columns or file_format.columns
        self._expected = () if self._find else _header_behind(file_format.columns)

    @property
    def is_done(self) -> bool:
        """Whether rows follow."""
        return self._to_skip == 0 and self._columns is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names; empty if the file ended before they came."""
        return self._columns or ()

    @property
    def column_names(self) -> list[str]:
        """Names for Arrow, by position."""
        return [f"c{index}" for index in range(len(self.columns))]

    def take_from(self, records: Records) -> Records:
        """Take rows from the start of the file until the names are known; return those that follow.

        Raises:
            Invalid: As `take`.
        """
        while not self.is_done and len(records.ends):
            first = records.data[: int(records.ends[0])]
            records = _drop_first(records)
            self.take(first)
        return records

    def take(self, row: bytes) -> None:
        """Take a row from the start of the file; blank ones are passed over.

        Raises:
            Invalid: It is no header, or a name is there twice.
        """
        text = row.decode().rstrip("\r\n")
        if self._to_skip:
            self._to_skip -= 1
            if self._expected and not self._to_skip:
                self._check(names_of(text, self._delimiter, self._name))
            return
        if not text:
            return
        if "\r" in text and "\n" not in text:
            raise Invalid(
                f"the lines of {self._name} end with CR alone; convert them to LF or CRLF",
                url=self._name,
            )
        named = names_of(text, self._delimiter, self._name)
        repeated = sorted({name for name in named if named.count(name) > 1})
        if repeated:
            raise Invalid(
                f"the header of {self._name} names {', '.join(repeated)} more than once; "
                "give columns and skipHeaderRows instead",
                url=self._name,
            )
        self._columns = named

    def _check(self, named: tuple[str, ...]) -> None:
        """Refuse a header that shares names with the one that the columns were made of, but is another one."""
        if named not in {self._expected, self._columns} and set(named) & set(self.columns):
            raise Invalid(
                f"the header of {self._name} is {', '.join(named)}, and columns were named by"
                f" {', '.join(self._expected)}; load it with a spec that has columns of its own",
                url=self._name,
            )


def names_of(text: str, delimiter: str, url: str) -> tuple[str, ...]:
    """Return the names that a header gives, those without one named by their position.

    Raises:
        Invalid: It cannot be taken apart.
    """
    import csv

    try:
        names = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error as error:
        raise Invalid(f"the header of {url} cannot be read: {error}", url=url) from None
    return tuple(name.strip() or f"column_{i}" for i, name in enumerate(names, start=1))


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that SQL, which knows no case, tells apart."""
    taken: dict[str, str] = {}
    for name in names:
        candidate, number = name, 0
        while candidate.lower() in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken[candidate.lower()] = candidate
    return tuple(taken.values())


def _header_behind(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the header of which `distinct_names` made these columns; empty: of none, as far as one can see."""
    known = {name.lower() for name in columns}
    found = tuple(
        match[1] if (match := _NUMBERED.fullmatch(name)) and match[1].lower() in known else name
        for name in columns
    )
    return found if found != tuple(columns) and distinct_names(found) == tuple(columns) else ()


def _drop_first(records: Records) -> Records:
    first = int(records.ends[0])
    return Records(
        records.data[first:], records.ends[1:] - first, records.lines[1:], records.offsets[1:]
    )
