"""`make check` runs some cases of a test with many: the first, and one of so many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.sampling import left_out


def case(nodeid: str, mark: pytest.Mark | None) -> Any:
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda _: mark)


def test_of_each_sampled_test_one_case_of_so_many_is_run() -> None:
    third, fifth = pytest.mark.sampled(3).mark, pytest.mark.sampled(5).mark
    cases = [
        *(case(f"a.py::test[[{n}]]", third) for n in range(7)),
        *(case(f"b.py::test[{n}]", fifth) for n in range(4)),
        *(case(f"c.py::test[{n}]", None) for n in range(4)),
    ]
    left = {one.nodeid for one in left_out(cases)}
    assert [one.nodeid for one in cases if one.nodeid not in left] == [
        *(f"a.py::test[[{n}]]" for n in (0, 3, 6)),
        "b.py::test[0]",
        *(f"c.py::test[{n}]" for n in range(4)),
    ]
