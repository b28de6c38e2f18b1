"""Bad input of every kind: one clear sentence, an exit code, no traceback, nothing half-published."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.cli.commands import all_commands
from scripts.docs.cli_page import click_commands
from tests.e2e.cli import Ran, run_process
from tests.e2e.conftest import Run

MORE = {
    "delete": ["--interval", "2013-01-01/P1D"],
    "erase": ["--where", "delay > 1"],
    "picture": ["-o", "a.svg"],
}
"""What a command needs beside the name of a datasource."""
LONG = "x" * 500
SPEC = {"dataSource": "edits", "input": "edits.jsonl"}


def one_sentence(done: Ran) -> str:
    """Return the error's sentence; there must be exactly one, and no traceback."""
    lines = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err + done.out
    sentence = lines[0].removeprefix("error: ")
    assert sentence[0].islower() or not sentence[0].isalpha(), sentence
    assert not sentence.endswith("."), sentence
    return sentence


def revisions(run: Run, store: Path) -> list[int]:
    log = run("log", "--json", "--store", str(store)).json["commits"]
    return [commit["revision"] for commit in log]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["sql", "SELECT * FROM nowhere"], 5, "nowhere"),
        (["sql", "SELECT nothing FROM flights"], 5, "nothing"),
        (["sql", "SELEC 1"], 2, "SELEC"),
        (["sql", "SELECT 1; SELECT 2"], 2, "one"),
        (["sql", "DROP TABLE flights"], 2, "SELECT"),
        (["sql", "SELECT * FROM read_csv('/etc/passwd')"], 2, "read_csv"),
        (["sql", "SELECT * FROM flights WHERE delay > ?"], 2, "parameter"),
        (["sql", "SELECT 1", "--at", "99"], 5, "99"),
        (["sql", "SELECT 1", "--at", "no-such-tag"], 5, "no-such-tag"),
        (["show", "0"], 5, "revision 0 is the empty store: no commit made it"),
        (["revert", "0"], 5, "revision 0 is the empty store: no commit made it"),
        (["tag", "2013-05-01"], 2, "a time"),
        (["sql", "SELECT 1", "--format", "xml"], 2, "xml"),
        (["sql", "SELECT 1", "--engine", "flink"], 2, "embedded or spark"),
        (["sql", "SELECT list(delay) FROM flights", "--engine", "spark"], 2, "function list"),
        (["sql"], 2, "--file"),
        (["sql", "-f", "missing.sql"], 5, "missing.sql"),
        (["show", "99"], 5, "99"),
        (["revert", "99"], 5, "99"),
        (["diff", "1", "99"], 5, "99"),
        (["segments", "nowhere"], 5, "nowhere"),
        (["chunks", "nowhere"], 5, "nowhere"),
        (["picture", "nowhere", "-o", "a.svg"], 5, "nowhere"),
        (["picture", "flights", "-o", "a.pdf"], 2, ".pdf"),
        (["picture", "flights", "-o", "no/such/folder/a.svg"], 5, "no/such/folder"),
        (["delete", "nowhere", "--interval", "2013-01-01/P1D"], 5, "nowhere"),
        (["delete", "flights"], 2, "--interval"),
        (["delete", "flights", "--where", "nothing = 1"], 2, "there is no column 'nothing'"),
        (["delete", "nowhere", "--where", "delay > 1"], 5, "nowhere"),
        (["delete", "flights", "--interval", "2013-01-01"], 2, "2013-01-01"),
        (["delete", "flights", "--interval", "2013-01-02/2013-01-01"], 2, "2013-01-02"),
        (["erase", "flights"], 2, "--where"),
        (["erase", "flights", "--where", "nothing = 1"], 2, "there is no column 'nothing'"),
        (["erase", "flights", "--where", "nothing = 1", "--dry-run"], 2, "no column 'nothing'"),
        (["erase", "flights", "--where", "delay > 1"], 2, "add --yes"),
        (["erase", "nowhere", "--where", "delay > 1", "--yes"], 5, "nowhere"),
        (["tag", "1"], 2, "1"),
        (["tag", "gone", "--remove"], 5, "gone"),
        (["lookups", "remove", "gone"], 5, "gone"),
        (["lookups", "set", "a", "missing.csv"], 5, "missing.csv"),
        (["quarantine", "quarantine/none"], 5, "quarantine/none"),
        (["quarantine", "segments"], 5, "no quarantined rows at 'segments'"),
        (["quarantine", ""], 5, "carnac quarantine lists the folders"),
        (["ingest", "missing.json"], 5, "missing.json"),
        (["ingest", "."], 2, "the name of . says no datasource"),
        (["spec", "check", "missing.json"], 5, "missing.json"),
        (["append", "flights", "/dev/zero"], 2, "a pipe or a device"),
        (["spec", "check", "/dev/zero"], 2, "longer than 64 MiB"),
        (["sql", "-f", "/dev/zero"], 2, "longer than 64 MiB"),
        (["rules", "set", "flights", "/dev/zero"], 2, "longer than 64 MiB"),
        (["receipt", "verify", "/dev/zero"], 2, "longer than 64 MiB"),
        (["serve", "--role", "nosuch"], 2, "overlord, coordinator, broker, historical"),
        (["serve", "--url", "node1:8090"], 2, "node1:8090 is no URL of a server; write it like"),
        (["serve", "--url", "http://:8090"], 2, "write it like http://node1:8090"),
        (["overlord", "--url", "node1"], 2, "write it like http://node1:8090"),
        (["overlord", "--url", "http://node1:port"], 2, "write it like http://node1:8090"),
        (["serve", "--role", "historical", "--capacity", "10 gallons"], 2, "like 50GB"),
        (["serve", "--role", "historical", "--capacity", "10"], 2, "is 10 bytes"),
        (
            ["serve", "--role", "historical", "--port", "0", "--folder", "/dev/null"],
            2,
            "/dev/null is a file",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_mistakes_are_one_sentence_and_change_nothing(
    run: Run, store: Path, *, args: list[str], code: int, says: str
) -> None:
    done = run(*args, "--store", str(store), code=code)
    assert says in one_sentence(done)
    assert done.out == ""
    as_json = run(*args, "--store", str(store), "--json", code=code)
    assert says in as_json.json["error"]["message"]
    assert revisions(run, store) == [3, 2, 1]


NEEDS_NONE = {"append", "ingest", "spec new", "rules show", "rules set", "users set"}
"""These need no datasource that is there: the first three make one; rules and users may be set before."""


def commands_about_a_datasource() -> list[list[str]]:
    """Return a command line for each way to name a datasource: those of the commands, so a new one is asked, too."""
    lines = []
    for name, command in click_commands().items():
        for param in command.params:
            if param.name != "datasource" or param.metavar == "COLUMN" or name in NEEDS_NONE:
                continue
            given = [] if param.param_type_name == "argument" else [param.opts[0]]
            lines.append([*name.split(), *given, "nope", *MORE.get(name, [])])
    return [
        *lines,
        ["compact", "nope", "--auto", "--until-stable"],
        ["log", "--datasource", "nope", "--before", "3"],
    ]


@pytest.mark.parametrize("args", commands_about_a_datasource(), ids=" ".join)
def test_every_command_refuses_an_unknown_datasource_in_the_same_sentence(
    run: Run, store: Path, args: list[str]
) -> None:
    done = run(*args, "--store", str(store), code=5)
    assert one_sentence(done) == "there is no datasource 'nope'; there are flights"
    assert done.out == ""


def test_rules_may_come_before_their_datasource_with_a_warning(run: Run, store: Path) -> None:
    warning = "warning: there is no datasource 'nope' now; its rules hold once it is there\n"
    rules = '[{"type": "loadForever", "tieredReplicants": {"_default_tier": 1}}]'
    assert run("rules", "show", "nope", "--store", store).err == warning
    assert run("rules", "set", "nope", rules, "--store", store).err == warning
    shown = run("rules", "show", "nope", "--json", "--store", store)
    assert shown.err == warning
    assert [rule["type"] for rule in shown.json["rules"]["nope"]] == ["loadForever"]
    for known in (
        ("show",),
        ("show", "flights"),
        ("set", "flights", rules),
        ("set", "_default", rules),
    ):
        assert run("rules", *known, "--store", store).err == ""


def test_a_datasource_that_was_emptied_is_known_to_the_log(run: Run, store: Path) -> None:
    run("delete", "flights", "--interval", "2000/2100", "--store", str(store))
    assert (
        len(run("log", "--datasource", "flights", "--json", "--store", str(store)).json["commits"])
        == 4
    )
    before = run("log", "--datasource", "flights", "--before", "1", "--store", str(store))
    assert "there is no commit of flights before 1" in before.err
    gone = run("segments", "flights", "--store", str(store), code=5)
    assert one_sentence(gone) == "there is no datasource 'flights'; there are none yet"


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["append", LONG, "f.jsonl"], 2, "dataSource has 500 characters"),
        (["append", "flights", LONG], 2, "file name too long; choose another name"),
        (["ingest", f"{LONG}.json"], 5, "cannot be read: File name too long"),
        (["init", LONG], 2, "file name too long; choose another name"),
        (["init", "a-file/x"], 2, ": not a directory; choose another name"),
        (["demo", "--keep", "a-file"], 2, ": not a directory; choose another name"),
        (["init", "c", "--deep-storage", "ftp://nowhere.invalid/y"], 4, "cannot connect: deep storage ftp:"),
        (["init", "c", "--deep-storage", "s3://my bucket/y"], 2, "the URL of deep storage has a blank"),
        (["lookups", "set", "a", "long.csv"], 2, "long.csv, line 2: field larger than field limit"),
        (["lookups", "set", "a", "twice.csv"], 2, "twice.csv, line 3: 'UA' is given more than once"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_name_or_a_file_that_nothing_can_be_made_of_is_one_sentence(
    run: Run, tmp_path: Path, *, args: list[str], code: int, says: str
) -> None:
    run("init", "carnac-store")
    (tmp_path / "a-file").touch()
    (tmp_path / "f.jsonl").write_text('{"timestamp": "2024-01-01", "n": 1}\n')
    (tmp_path / "long.csv").write_text(f"code,name\nUA,{'x' * 131_073}\n")
    (tmp_path / "twice.csv").write_text("code,name\nUA,United\nUA,Untied\n")
    assert says in one_sentence(run(*args, code=code))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({"input": "a.json"}), "dataSource"),
        (json.dumps({**SPEC, "colour": "red"}), "colour"),
        (json.dumps({**SPEC, "granularitySpec": {"segmentGranularity": "fortnight"}}), "fortnight"),
        (
            json.dumps(
                {
                    **SPEC,
                    "mode": "replace",
                    "granularitySpec": {
                        "queryGranularity": "hour",
                        "intervals": ["2013-01-01T00:30/2013-01-02"],
                    },
                }
            ),
            "queryGranularity",
        ),
        (json.dumps({"type": "index_parallel", "spec": {"dataSchema": {}}}), "dataSource"),
    ],
)
def test_a_wrong_spec_is_one_sentence(
    run: Run, store: Path, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "spec.json").write_text(text)
    checked = run("spec", "check", "spec.json", code=2)
    ingested = run("ingest", "spec.json", "--store", str(store), code=2)
    assert says in one_sentence(checked)
    assert one_sentence(checked) == one_sentence(ingested)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "JSON"), ("[1]", "list"), ("", "empty"), ("a: [", "YAML"), ("a: {b", "YAML")],
)
def test_what_is_no_spec_at_all_is_one_sentence(
    run: Run, store: Path, tmp_path: Path, text: str, says: str
) -> None:
    """By its name it is a spec where the name says so; a file that ends with .json may also be one of rows."""
    (tmp_path / "spec.yaml").write_text(text)
    (tmp_path / "spec.json").write_text(text)
    checked = run("spec", "check", "spec.yaml", code=2)
    assert says in one_sentence(checked)
    ingested = run("ingest", "spec.yaml", "--store", str(store), code=2)
    assert one_sentence(checked) == one_sentence(ingested)
    one_sentence(run("ingest", "spec.json", "--store", str(store), code=2))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["log", "--bla"], "no such option: --bla; for help: carnac log --help"),
        (["blog"], "no such command 'blog'"),
        (["apend"], "no such command 'apend'; did you mean 'append'? for help: carnac --help"),
        (["sql", "--max-rows", "-1", "SELECT 1"], "invalid value for '--max-rows'"),
        (["show"], "missing argument 'REVISION'; for help: carnac show --help"),
        (["picture", "flights"], "missing option '--output' / '-o'"),
        (["lookups", "set", "a"], "missing argument 'FILE'; for help: carnac lookups set --help"),
        (["gc", "now"], "got unexpected extra argument"),
        (["log", "--limit", "x"], "invalid value for '--limit'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_exits_with_2(run: Run, args: list[str], says: str) -> None:
    done = run(*args, code=2)
    assert one_sentence(done).startswith(says)
    assert one_sentence(done).endswith("--help")
    assert done.out == ""
    as_json = run(*args, "--json", code=2)
    assert as_json.json["error"]["message"] == one_sentence(done)


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_every_command_refuses_what_it_does_not_know_in_one_sentence(run: Run, name: str) -> None:
    done = run(*name.split(), "--no-such-option", "--json", code=2)
    assert done.json["error"]["kind"] == "invalid"
    assert one_sentence(done).startswith("no such option: --no-such-option")
    assert one_sentence(done).endswith(f"carnac {name} --help")


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_every_command_has_a_page_with_an_example(run: Run, name: str) -> None:
    page = run(*name.split(), "--help").out
    assert "--json" in page
    assert f"  carnac {name}" in page.partition("Example")[2]
    assert run(*name.split(), "-h").out == page


@pytest.mark.parametrize(
    "group", [[], ["task"], ["lookups"], ["spec"], ["compaction"], ["balance"]]
)
def test_a_group_alone_shows_its_commands(run: Run, group: list[str]) -> None:
    done = run(*group, code=2)
    assert " ".join(["Usage: carnac", *group]) in done.out
    assert done.err == ""


def test_no_store_says_how_to_make_one(run: Run, tmp_path: Path) -> None:
    done = run("log", "--store", "nowhere", code=5)
    assert one_sentence(done) == "there is no store at nowhere; make one with: carnac init nowhere"
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").write_text("not a store")
    assert "is a file" in one_sentence(run("log", "--store", "file", code=2))
    assert "mysql://" in one_sentence(run("log", "--store", "mysql://host/db", code=2))


def test_a_driver_inside_a_cluster_needs_a_store_that_it_can_reach(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARNAC_TASK_RUNNER", "spark_submit")
    monkeypatch.setenv("CARNAC_SPARK_MASTER", "yarn")
    monkeypatch.setenv("CARNAC_SPARK_DEPLOY_MODE", "cluster")
    done = run("overlord", "--port", "0", "--store", str(store), code=2)
    assert done.err.splitlines()[-1] == (
        f"error: a driver inside the cluster cannot open the store {store}, which is a folder of this machine; keep it "
        'in PostgreSQL, or use spark_deploy_mode = "client"'
    )


def test_a_file_that_is_no_database_is_corrupt(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "metadata.db").write_bytes(b"this is not a database" * 1000)
    one_sentence(run("log", "--store", "broken", code=7))


def test_an_error_inside_carnac_is_one_sentence_with_70(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carnac.store import Store

    monkeypatch.setattr(Store, "log", lambda *_args, **_kwargs: 1 // 0)
    done = run("log", "--store", str(store), code=70)
    assert one_sentence(done).startswith("internal error: ZeroDivisionError")
    assert "--debug" in done.err
    debugged = run("log", "--store", str(store), "--debug", code=70)
    assert "Traceback" in debugged.err
    assert "ZeroDivisionError" in debugged.err


def test_debug_shows_the_traceback_of_an_expected_error_too(run: Run) -> None:
    done = run("log", "--store", "nowhere", "--debug", code=5)
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("error: there is no store")


@pytest.mark.nightly("starts Spark once more")
@pytest.mark.spark
@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_publishes_nothing(run: Run, tmp_path: Path) -> None:
    """Deep storage is a file system of 200 kB, in a mount namespace of its own."""
    unshare = shutil.which("unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    wrapped = [str(unshare), "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=200k tmpfs {disk}"
    if (
        unshare is None
        or subprocess.run([*wrapped, mount], check=False, capture_output=True).returncode
    ):
        pytest.skip("this machine lets no user mount a small file system (unshare --map-root-user)")
    store = tmp_path / "store"
    assert run_process(["init", str(store), "--deep-storage", str(disk)], cwd=tmp_path).code == 0
    rows = [
        f'{{"timestamp": "2013-01-01T01:00:00Z", "n": "{n * 7919 % 1_000_003:x}-{n}"}}'
        for n in range(100_000)
    ]
    (tmp_path / "edits.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    command = f"{sys.executable} -m carnac ingest spec.json --store {store}"
    ran = subprocess.run(
        [*wrapped, f"{mount} && {command}"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    done = Ran(ran.returncode, ran.stdout, ran.stderr)
    assert done.code == 4, done.err
    assert "full" in one_sentence(done)
    assert revisions(run, store) == []
