"""What a service logs goes to standard error while it runs, and nowhere once it has ended."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from carnac.cli.logs import QUIET, logging_to_stderr


def test_who_logs_after_the_end_of_a_service_meets_no_closed_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, stream = logging.getLogger("carnac.ending"), io.StringIO()
    before = {name: logging.getLogger(name).level for name in ("root", *QUIET)}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with logging_to_stderr(is_json=False):
            log.info("begins")
            assert stream.getvalue().endswith(" INFO ending: begins\n")
    stream.close()
    log.error("a thread that ends late")
    assert "Logging error" not in capsys.readouterr().err
    assert {name: logging.getLogger(name).level for name in before} == before


@pytest.mark.parametrize("library", ["py4j.java_gateway", "psycopg", "psycopg.pool"])
def test_libraries_that_raise_what_they_log_are_not_heard_twice(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to_stderr(is_json=False):
        try:
            raise ConnectionResetError("gone")
        except ConnectionResetError:
            logging.getLogger(library).exception("error ignored terminating")
        logging.getLogger("uvicorn.error").warning("this one is")
    assert capsys.readouterr().err.splitlines()[0].endswith("this one is")
