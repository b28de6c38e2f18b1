"""The night is long enough for what tests do by night."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.nightly import IS_NIGHTLY, NIGHT_S


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_by_night_each_test_may_take_hours(request: pytest.FixtureRequest) -> None:
    if IS_NIGHTLY:
        limit = request.node.get_closest_marker("timeout")
        assert limit.args == (NIGHT_S,)
        return
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", request.node.nodeid],
        cwd=request.config.rootpath,
        env=os.environ | {"HYPOTHESIS_PROFILE": "nightly"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
