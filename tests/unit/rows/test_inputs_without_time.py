"""An input that cannot be meant: no column for the time, no header, two columns of one name. It is one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from carnac.errors import Invalid
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.specs.ingest.inputs import CsvFormat, OrcFormat, ParquetFormat
from carnac.specs.ingest.schema import TimestampSpec
from tests.unit.rows.loading import (
    STAMP,
    connection,
    inline,
    load_bytes,
    load_files,
    look,
    shape,
)

FORMATS = {"parquet": ParquetFormat(), "orc": OrcFormat()}
PATIENT = TimestampSpec(column="t", missing_value="2013-01-01")


def table(names: list[str]) -> pa.Table:
    return pa.Table.from_arrays([pa.array([at]) for at in range(len(names))], names=names)


def load_table(path: Path, names: list[str], **more: Any) -> list[dict[str, Any]]:
    """Return the rows of a file with these columns, each of which holds its place from 0."""
    if path.suffix == ".parquet":
        pq.write_table(table(names), path)
    else:
        pyarrow.orc.write_table(table(names), path)
    file = InputFile(url=str(path), size_bytes=path.stat().st_size)
    found = load_files(
        [file],
        shape(more.pop("types", {"v": "long"})),
        file_format=FORMATS[path.suffix[1:]],
        **more,
    )
    assert not found.rejected
    return found.rows


def load_frame(names: list[str], timestamp: TimestampSpec = STAMP) -> list[dict[str, Any]]:
    with connection() as con:
        counts = load_rows_from_arrow(
            con, table(names), shape({"v": "long"}), origin="rows", timestamp=timestamp
        )
        return look(con, counts).rows


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_without_the_column_of_the_time_is_one_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    with pytest.raises(
        Invalid,
        match=r"has no column 't', in which timestampSpec looks for the time: its columns are time, v$",
    ) as caught:
        load_table(path, ["time", "v"])
    assert caught.value.ids == {"column": "t", "url": str(path)}
    assert [row["v"] for row in load_table(path, ["time", "v"], timestamp=PATIENT)] == [1]


def test_a_frame_without_the_column_of_the_time_is_one_error() -> None:
    with pytest.raises(Invalid, match=r"^input rows has no column 't'"):
        load_frame(["v"])
    assert [row["v"] for row in load_frame(["v"], PATIENT)] == [0]


def test_a_long_list_of_columns_is_cut() -> None:
    with pytest.raises(Invalid, match=r"columns are c0, .*, c9 and 2 more$"):
        load_frame([f"c{at}" for at in range(12)])


@pytest.mark.parametrize("data", ["2013-01-01,5\n2013-01-02,6\n", "2013-01-01,5\n"])
def test_a_csv_file_without_a_header_does_not_lose_its_first_line(data: str) -> None:
    with pytest.raises(
        Invalid,
        match=r"no column 't', .* columns are 2013-01-01, 5, as its first line says; if that is a row already, "
        r"give columns in inputFormat$",
    ):
        load_bytes(data, {"v": "long"}, file_format=CsvFormat())
    given = CsvFormat.model_validate({"type": "csv", "columns": ["t", "v"]})
    assert load_bytes(data, {"v": "long"}, file_format=given).column("v")[0] == 5


@pytest.mark.parametrize(("text", "name"), [(";", "';'"), ("\t", "tabs"), ("|", r"'\|'")])
def test_another_delimiter_is_guessed_at(text: str, name: str) -> None:
    with pytest.raises(Invalid, match=f"; if {name} separate its fields, say so with delimiter"):
        load_bytes(f"t{text}v\n2013{text}1,5\n", {"v": "long"}, file_format=CsvFormat())


def test_one_file_without_a_header_among_others_is_named() -> None:
    good, bad = inline("t,v\n1,1\n"), inline("2,7\n3,3\n")
    with pytest.raises(Invalid, match="its columns are 2, 7, as its first line"):
        load_files([good, bad], shape({"v": "long"}), file_format=CsvFormat())


def test_columns_that_do_not_name_the_time_are_one_error_without_the_hint() -> None:
    given = CsvFormat.model_validate({"type": "csv", "columns": ["a", "v"]})
    with pytest.raises(Invalid, match=r"its columns are a, v$"):
        load_bytes("1,1\n", {"v": "long"}, file_format=given)


def test_a_csv_file_with_nothing_in_it_has_no_columns_to_miss() -> None:
    assert load_bytes("", {"v": "long"}, file_format=CsvFormat()).counts.rows_read == 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["t", "v", "v"], "has 2 columns named v; rename all but one"),
        (["t", "v", "V"], r"has 2 columns named v and V \(they differ in case only\); rename"),
        (["t", "v", "v_1", "v"], "has 2 columns named v; "),
    ],
)
def test_columns_of_one_name_are_one_error(
    tmp_path: Path, kind: str, names: list[str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        load_table(tmp_path / f"a.{kind}", names)


@pytest.mark.parametrize("kind", FORMATS)
def test_names_that_look_as_if_they_were_made_up_are_taken(tmp_path: Path, kind: str) -> None:
    (row,) = load_table(
        tmp_path / f"a.{kind}", ["t", "v", "v_1"], types={"v": "long", "v_1": "long"}
    )
    assert (row["v"], row["v_1"]) == (1, 2)


def test_columns_of_a_frame_that_differ_in_case_only_are_one_error() -> None:
    with pytest.raises(Invalid, match="they differ in case only"):
        load_frame(["t", "v", "V"])
