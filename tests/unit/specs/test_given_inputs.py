"""Specs that name no input, since rows or files are given next to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carnac.cli.specfiles import load_spec_file
from carnac.errors import Invalid
from carnac.specs.load import load_spec

NATIVE: dict[str, Any] = {"dataSource": "edits"}
DRUID: dict[str, Any] = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {"dataSource": "edits", "timestampSpec": {"column": "t"}},
        "ioConfig": {"type": "index_parallel"},
    },
}
CSV = {"type": "csv", "findColumnsFromHeader": True}


def with_format(spec: dict[str, Any]) -> dict[str, Any]:
    inner = {**spec["spec"], "ioConfig": {**spec["spec"]["ioConfig"], "inputFormat": CSV}}
    return {**spec, "spec": inner}


@pytest.mark.parametrize("spec", [NATIVE, DRUID, with_format(DRUID)])
def test_files_on_the_command_line_need_no_others(spec: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    found = load_spec_file(str(file), inputs=["a.csv", "b.csv"]).to_json_dict()
    assert found["input"]["paths"] == ["a.csv", "b.csv"]
    assert ("inputFormat" in found["input"]) == (spec not in (NATIVE, DRUID))
    with pytest.raises(Invalid, match="is required"):
        load_spec_file(str(file))


@pytest.mark.parametrize("spec", [NATIVE, DRUID, with_format(DRUID)])
def test_rows_that_are_handed_over_need_no_files(spec: dict[str, Any]) -> None:
    assert load_spec(spec, has_rows=True).datasource == "edits"
    with pytest.raises(Invalid, match="is required"):
        load_spec(spec)
