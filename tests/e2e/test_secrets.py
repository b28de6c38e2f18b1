"""Secrets are planted wherever Carnac reads some, and looked for in everything that it writes."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.cli import main
from carnac.config import Settings, load_settings
from carnac.errors import CarnacError
from tests.commandlines import NO_SPARK, examples
from tests.e2e.cli import append_rows
from tests.support.postgresql import PostgreSQLServer
from tests.waiting import until

SECRET = "pl4nted"
"""What all secrets hold, each with a name of its own before it."""
PASSED = f"in-url-{SECRET}"
ESCAPED = f"in/url?@{SECRET}"
KEY = f"in-spark-{SECRET}"
ROWS = [{"__time": "2013-01-01T12:00:00Z", "carrier": "UA", "delay": 1}]


def found_in(text: str) -> list[str]:
    """The lines that hold a secret, also with percent signs."""
    return [line for line in text.splitlines() if SECRET in line or quote(ESCAPED, safe="") in line]


@pytest.fixture
def url(postgresql_server: PostgreSQLServer) -> str:
    """A database that trusts everybody who comes through its socket, with secrets wherever a URL may have them."""
    plain = postgresql_server.create_database("secrets")
    plain = plain.replace("postgresql://postgres@", f"postgresql://postgres:{PASSED}@")
    more = {"password": ESCAPED, "sslpassword": f"in-ssl-{SECRET}", "passfile": f"/x/{SECRET}"}
    more["options"] = f"-c application_name={SECRET}"
    return plain + "".join(f"&{name}={quote(value, safe='')}" for name, value in more.items())


@pytest.fixture
def environ(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables with the secrets; what is not in them is in the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "carnac.toml").write_text(
        f'store = "postgresql://x:{PASSED}@nowhere/x"\n'
        f'[spark_conf]\n"spark.hadoop.fs.s3a.secret.key" = "{KEY}"\n"spark.ui.enabled" = "false"\n'
    )
    own = {
        "CARNAC_STORE": url,
        "CARNAC_DEEP_STORAGE": str(tmp_path / "segments"),
        "CARNAC_SPARK_MASTER": NO_SPARK,
        "CARNAC_TASK_LOGS": str(tmp_path / "logs"),
        "CARNAC_LEASE_TTL_MS": "3000",
        "CARNAC_OVERLORD_PERIOD_MS": "50",
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    append_rows(url, ROWS)
    return {**os.environ, **own}


@pytest.fixture
def task(environ: dict[str, str]) -> str:
    """A task whose context and whose condition hold secrets."""
    with open_tasks(settings=load_settings(environ, directory=Path.cwd())) as tasks:
        payload = {
            "id": "delete_flights_by_hand",
            "type": "delete",
            "dataSource": "flights",
            "interval": "2013-01-01/P1D",
            "context": {"sparkConf": {"spark.hadoop.fs.s3a.secret.key": KEY, "spark.x": "y"}},
        }
        return tasks.submit(payload).task_id


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """All that is logged by anybody, from level debug on."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    level = logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        logging.root.removeHandler(handler)
        logging.root.setLevel(level)


@pytest.mark.sql
def test_no_command_says_a_secret(
    task: str,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert task == "delete_flights_by_hand"
    shown = sorted(examples(), key=lambda line: line[0] == "drop")  # others need what it drops
    lines = [("init", url), ("picture", "flights", "-o", "flights.html"), *shown]
    lines += [
        (*line, "--json") for line in examples() if line[0] in {"task", "log", "init", "show"}
    ]
    with logged() as log:
        for line in lines:
            typed = f"typed-{SECRET}\n" if line[0] == "users" else ""
            monkeypatch.setattr("sys.stdin", io.StringIO(typed))
            code = main([*line, "--debug"])
            said = capsys.readouterr()
            assert found_in(said.out + said.err) == [], line
            assert code != 70, (line, said.err)
    assert found_in(log.getvalue()) == []
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} >= {".svg", ".html"}, "pictures were drawn"
    secret = [path for path in written if SECRET.encode() in path.read_bytes()]
    assert secret == [tmp_path / "carnac.toml"], "only where their owner wrote them"


WRONG = {
    "password": "postgresql://u:{s}@127.0.0.1:1/db?password={s}",
    "two ats": "postgresql://u:{s}@{s}@127.0.0.1:1/db",
    "slash": "postgresql://u:a/{s}@127.0.0.1:1/db",
    "question mark": "postgresql://u:a?{s}@127.0.0.1:1/db",
    "port": "postgresql://u:{s}@127.0.0.1:{s}/db",
    "unknown option": "postgresql://127.0.0.1:1/db?pasword={s}",
    "unknown scheme": "mysql://u:{s}@h/db?password={s}",
    "no slashes": "postgresql:u:{s}@h/db",
    "keywords": "host=127.0.0.1 port=1 password={s} dbname=x",
    "name of a host": "postgresql://u:{s}@no-such-host.invalid/db",
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("command", ["doctor", "log", "init"])
def test_no_error_of_a_wrong_url_says_a_secret(
    kind: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    wrong = WRONG[kind].format(s=SECRET)
    more = ["--deep-storage", f"s3://key:{SECRET}@bucket/x"] if command == "init" else []
    with logged() as log:
        for given in (["--store", wrong], ["--store", wrong, "--debug", "--json"]):
            code = main([command, *more, *given])
            said = capsys.readouterr()
            assert code not in {0, 70}, said.err
            assert found_in(said.out + said.err + log.getvalue()) == []


@pytest.mark.parametrize(
    "given",
    [
        ["doctor"],
        ["task", "list", "--overlord", f"http://u:{SECRET}@127.0.0.1:1/?token={SECRET}"],
        ["init", "--deep-storage", f"s3://key:{SECRET}@bucket/x", "--store", "postgresql://127.0.0.1:1/x"],
        ["spec", "check", "secret.json"],
        ["ingest", "plain.json", "--input", f"s3://key:{SECRET}@bucket/x.json"],
    ],
    ids=lambda given: " ".join(given[:2]),
)  # fmt: skip
def test_no_other_place_says_a_secret(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARNAC_SPARK_REMOTE", f"sc://127.0.0.1:1/;token={SECRET}")
    (tmp_path / "secret.json").write_text(
        json.dumps({"dataSource": {"password": SECRET}, "input": f"s3://k:{SECRET}@b/x.json"})
    )
    (tmp_path / "plain.json").write_text('{"dataSource": "x", "input": "x.json"}')
    append_rows(tmp_path / "carnac-store", ROWS)
    code = main([*given, "--debug"])
    said = capsys.readouterr()
    assert code not in {0, 70}, said.err
    assert found_in(said.out + said.err) == []


def test_a_wrong_password_is_not_said(tmp_path: Path) -> None:
    """What a driver says of a connection is said without what the URL holds."""
    from carnac.metadata.backends.postgresql import PostgresqlDatabase

    database = PostgresqlDatabase(f"postgresql://u:{SECRET}@h/d?options=-c%20{SECRET}")
    error = psycopg.OperationalError(f'invalid argument "-c {SECRET}" for {SECRET}')
    assert SECRET not in str(database.translate(error))


def test_settings_and_what_is_made_of_them_cannot_be_printed(tmp_path: Path) -> None:
    settings = Settings(
        store=f"postgresql://u:{SECRET}@h/db",
        overlord=f"http://u:{SECRET}@h",
        deep_storage=f"s3://k:{SECRET}@b",
        spark_remote=f"sc://h/;token={SECRET}",
        spark_conf={"spark.hadoop.fs.s3a.secret.key": SECRET},
    )
    shown = [repr(settings), str(settings), f"{settings}", settings.model_dump_json()]
    shown += [f"{value} {value!r}" if value is not None else "" for _, value in settings]
    shown.append(str(settings.model_dump()))
    with pytest.raises(CarnacError) as caught, open_store(settings=settings):
        pass
    shown.append("".join(traceback.format_exception(caught.value)))
    assert found_in("\n".join(shown)) == []
    with pytest.raises(TypeError):
        json.dumps(settings.store)


@pytest.mark.sql
@pytest.mark.slow
def test_no_answer_log_report_or_command_line_of_an_overlord_says_a_secret(
    environ: dict[str, str], task: str, tmp_path: Path
) -> None:
    log = tmp_path / "overlord.log"
    with _listening(["overlord"], {**environ, "CARNAC_TASK_RUNNER": "spark_submit"}, log) as here:
        lines = _watch(*here, task)
        answers = _answers(here[1], task)
    assert any("spark-submit" in line or "SparkSubmit" in line for line in lines)
    assert found_in("\n".join(lines)) == []
    assert len(answers) > 10
    assert found_in("\n".join(answers)) == []
    assert any("***" in answer for answer in answers), "hidden, not left out"
    texts = [path for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert texts, "the attempt has a log"
    assert [path for path in (*texts, log) if found_in(path.read_text(errors="replace"))] == []


@pytest.mark.nightly("starts a cluster and many commands")
@pytest.mark.sql
@pytest.mark.slow
def test_no_answer_or_file_of_what_serves_a_cluster_says_a_secret(
    environ: dict[str, str], task: str, tmp_path: Path
) -> None:
    folder, log = tmp_path / "h1", tmp_path / "serve.log"
    roles = [f"--role={role}" for role in ("coordinator", "broker", "historical")]
    words = ["serve", *roles, f"--folder={folder}", "--capacity=1GB", "--access-log"]
    statements = ["SELECT * FROM flights", "SELECT * FROM sys.servers", "SELECT * FROM sys.segments",
                  "EXPLAIN SELECT count(*) FROM flights", "SELECT * FROM nowhere", "SELEC"]  # fmt: skip
    with _listening(words, environ, log) as (_, address):
        until(
            lambda: any((folder / "segments").rglob("*.parquet")) if folder.exists() else False,
            "the historical holds its segment",
        )
        answers = _answers(address, task)
        for sql in statements:
            answer = httpx.post(f"{address}/druid/v2/sql", json={"query": sql})
            answers += [answer.text, str(answer.headers)]
    assert len(answers) > 20
    assert found_in("\n".join(answers)) == []
    written = [log, *(path for path in folder.rglob("*") if path.is_file())]
    assert len(written) > 2
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


@contextmanager
def _listening(words: list[str], environ: dict[str, str], log: Path) -> Iterator[tuple[int, str]]:
    """A process that serves until the block ends: its number, and where it listens."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "carnac", *words, "--port", "0", "--json"],
            env=environ,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: "listening at" in log.read_text(), "it listens")
        address = re.search(r"listening at (http://[^\s,\"]+)", log.read_text())
        assert address is not None
        yield process.pid, address[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _watch(overlord: int, address: str, task: str) -> list[str]:
    """The command lines of all that the overlord starts, until the task is over."""
    lines: set[str] = set()

    def is_over() -> bool:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                text = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if folder.name == str(overlord) or task in text or "spark" in text.lower():
                lines.add(text)
        status = httpx.get(f"{address}/druid/indexer/v1/task/{task}/status").json()
        return status["status"]["statusCode"] != "RUNNING"

    until(is_over, "the task is over")
    return sorted(lines)


def _answers(address: str, task: str) -> list[str]:
    """What every GET route says; a route that is added is asked, too."""
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]
    asked = [path for path, methods in paths.items() if "get" in methods]
    filled = [re.sub(r"\{(task_?[iI]d)\}", task, path) for path in asked]
    filled = [re.sub(r"\{\w+\}", "flights", path) for path in filled]
    return [httpx.get(address + path).text for path in ("/", *filled)]
