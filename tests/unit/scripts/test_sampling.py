"""`make check` runs some cases of a test with many: the first, the last, and some between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.sampling import CASES_MAX, left_out


def case(nodeid: str) -> Any:
    return SimpleNamespace(nodeid=nodeid)


def test_of_each_test_no_more_than_so_many_cases_are_run_from_the_first_to_the_last() -> None:
    cases = [
        *(case(f"a.py::test[[{n}]]") for n in range(8)),
        *(case(f"b.py::test[{n}]") for n in range(CASES_MAX)),
        case("c.py::test"),
        *(case(f"d.py::test[{n}]") for n in range(CASES_MAX + 1)),
    ]
    left = {one.nodeid for one in left_out(cases)}
    assert [one.nodeid for one in cases if one.nodeid not in left] == [
        *(f"a.py::test[[{n}]]" for n in (0, 3, 7)),
        *(f"b.py::test[{n}]" for n in range(CASES_MAX)),
        "c.py::test",
        *(f"d.py::test[{n}]" for n in (0, 1, 3)),
    ]
