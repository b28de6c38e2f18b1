"""Reading and metadata commands on a real store, without Spark."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.deep_storage import open_deep_storage
from carnac.store.upkeep.verifying import Scrubber
from tests.e2e.cli import DAYS, ROWS, append_rows
from tests.e2e.conftest import Run
from tests.support.databases import edited
from tests.support.segments import Row

COUNT = "SELECT count(*) AS n FROM flights"


def count(run: Run, store: Path, at: str | None = None) -> int:
    args = ["sql", COUNT, "--store", str(store), "--json"]
    return int(run(*args, *(["--at", at] if at else [])).json["rows"][0]["n"])


def test_sql_reads_the_newest_revision_and_earlier_ones(run: Run, store: Path) -> None:
    assert count(run, store) == ROWS
    assert [count(run, store, str(revision)) for revision in (1, 2, 3)] == [
        len(DAYS[0]),
        len(DAYS[0]) + len(DAYS[1]),
        ROWS,
    ]


def test_sql_prints_an_aligned_table_with_times_in_utc(run: Run, store: Path) -> None:
    done = run(
        "sql",
        "SELECT __time, carrier, delay FROM flights ORDER BY __time LIMIT 2",
        "--store",
        str(store),
    )
    assert done.out.splitlines() == [
        "__time                    carrier  delay",
        "────────────────────────  ───────  ─────",
        "2013-01-01T02:30:00.000Z  AA         102",
        "2013-01-01T06:30:00.000Z  AA         106",
    ]
    assert "2 rows at revision 3" in done.err


def test_sql_says_how_many_rows_a_table_leaves_out(run: Run, store: Path) -> None:
    done = run("sql", "SELECT delay FROM flights", "--max-rows", "3", "--store", str(store))
    assert len(done.out.splitlines()) == 2 + 3
    assert f"{ROWS - 3} more rows" in done.err


def test_sql_writes_csv_and_json_lines_that_hold_all_rows(run: Run, store: Path) -> None:
    sql = "SELECT carrier, delay, CASE WHEN delay > 105 THEN 'a,\"b\"' END AS odd FROM flights ORDER BY delay"
    rows = list(
        csv.DictReader(io.StringIO(run("sql", sql, "--format", "csv", "--store", str(store)).out))
    )
    lines = run("sql", sql, "--format", "jsonl", "--store", str(store)).out.splitlines()
    blocks = [json.loads(line) for line in lines]
    assert len(rows) == len(blocks) == ROWS
    assert (rows[0]["odd"], blocks[0]["odd"]) == ("", None)
    assert rows[-1]["odd"] == blocks[-1]["odd"] == 'a,"b"'
    assert [int(row["delay"]) for row in rows] == [block["delay"] for block in blocks]


def test_sql_takes_parameters_from_the_line_and_the_statement_from_a_file(
    run: Run, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "q.sql").write_text(
        "SELECT count(*) AS n FROM flights WHERE carrier = ? AND delay > ?"
    )
    done = run("sql", "-f", "q.sql", "-p", "UA", "-p", "200", "--store", str(store), "--json")
    expected = sum(
        1 for day in DAYS for row in day if row["carrier"] == "UA" and int(str(row["delay"])) > 200
    )
    assert done.json["rows"] == [{"n": expected}]
    assert expected > 0


def test_sql_takes_parameters_by_name(run: Run, store: Path) -> None:
    at = ("--store", str(store), "--json")
    named = ["sql", "SELECT $word AS word, $n + $n AS n"]
    done = run(*named, "-p", "n=21", "-p", "word=a=b", *at)
    assert done.json["rows"] == [{"word": "a=b", "n": 42}]
    assert run("sql", "SELECT ? AS v, '$v' AS w", "-p", "v=1", *at).json["rows"] == [
        {"v": "v=1", "w": "$v"}
    ], "a place takes all of a value"
    for text in ("'a ? b'", "'it''s $x' -- ?\n", "$$ ? $$", "$x$ ? $x$", """'' AS "?" /* ? */"""):
        line = ["sql", f"SELECT $n AS n, {text}", "-p", "n=21"]
        assert run(*line, *at).json["rows"][0]["n"] == 21, "a ? that stands for no value"
    assert run("why", "SELECT count(*) FILTER (carrier <> '?' AND delay > $n) AS n FROM flights",
               "--from", "0", "-p", "n=200", *at).json["after"]  # fmt: skip
    for values, words in {
        ("n=1", "wrod=x"): "the statement has $word, and no value of that name was given",
        ("n=1", "n=2"): "--param n=… is given twice",
        ("n=1", "x"): "is given by name: parameters={'n': …}, --param n=…",
    }.items():
        failed = run(*named, *(part for one in values for part in ("-p", one)), *at[:2], code=2)
        assert words in failed.err


def test_sql_keeps_columns_of_one_name_apart_in_json(run: Run, store: Path) -> None:
    done = run("sql", "SELECT 1 AS a, 2 AS a FROM flights LIMIT 1", "--store", str(store), "--json")
    assert list(done.json["rows"][0].values()) == [1, 2]


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (["log"], "commits"),
        (["show", "2"], "changes"),
        (["diff", "1"], "datasources"),
        (["tags"], "tags"),
        (["datasources"], "datasources"),
        (["segments", "flights"], "segments"),
        (["chunks", "flights"], "chunks"),
        (["lookups", "list"], "lookups"),
        (["streams", "list"], "streams"),
        (["gc", "--dry-run"], "actions"),
        (["verify"], "findings"),
        (["doctor"], "checks"),
        (["quarantine"], "folders"),
        (["version"], "version"),
        (["delete", "flights", "--interval", "2013-01-01/P1D", "--dry-run"], "segments_whole"),
    ],
)
def test_every_reading_command_prints_a_table_and_one_json_document(
    run: Run, store: Path, args: list[str], key: str
) -> None:
    assert key in run(*args, "--store", str(store), "--json").json
    text = run(*args, "--store", str(store)).out
    assert text.strip()
    assert not text.startswith("{")


def test_a_dry_run_of_a_delete_checks_its_condition(run: Run, store: Path) -> None:
    args = ("delete", "flights", "--where", "nope = 1", "--dry-run", "--store", str(store))
    done = run(*args, code=2)
    assert "there is no column 'nope'" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["datasources"], "no datasource has rows yet; carnac ingest brings some"),
        (["log"], "nothing has been published yet"),
        (["tags"], "there are no tags; carnac tag NAME makes one"),
        (["lookups", "list"], "there are no lookups; carnac lookups set NAME FILE makes one"),
        (
            ["streams", "list"],
            "no writer has a position; carnac supervisor submit and, in Python, store.stream start streams",
        ),
        (["rules", "show", "--history"], "no rules have been set; carnac rules set sets some"),
        (["quarantine"], "no row has been rejected"),
        (["locks"], "no locks"),
        (["task", "list"], "no tasks"),
        (["servers"], "no server serves this store; start one with: carnac serve"),
    ],
)
def test_a_list_of_nothing_says_so(run: Run, args: list[str], said: str) -> None:
    run("init", "--store", "new")
    done = run(*args, "--store", "new")
    assert said in (done.out + done.err).splitlines()


def test_log_shows_newest_first_and_can_be_paged(run: Run, store: Path) -> None:
    first = run("log", "--limit", "2", "--store", str(store))
    assert [line.split()[0] for line in first.out.splitlines()[2:]] == ["3", "2"]
    assert "carnac log --before 2" in first.err
    whose = ("log", "--datasource", "flights", "--store", str(store), "--limit")
    assert "older commits: carnac log --datasource flights --before 3" in run(*whose, "1").err
    assert run(*whose, "3").err == ""
    older = run("log", "--before", "2", "--store", str(store), "--json").json["commits"]
    assert [commit["revision"] for commit in older] == [1]
    assert older[0]["message"] == f"{len(DAYS[0])} rows"
    nothing = run("log", "--datasource", "nosuch", "--store", str(store), code=5)
    assert nothing.err == "error: there is no datasource 'nosuch'; there are flights\n"


def test_segments_of_an_interval_and_their_clips(run: Run, store: Path) -> None:
    run(
        "delete",
        "flights",
        "--interval",
        "2013-01-02T12:00/2013-01-03T12:00",
        "--store",
        str(store),
    )
    found = run("segments", "flights", "--store", str(store), "--json").json["segments"]
    assert [(item["clip"] is None, item["added_revision"]) for item in found] == [
        (True, 1),
        (False, 4),
        (False, 4),
    ]
    one = run("segments", "flights", "--interval", "2013-01-01/P1D", "--store", str(store))
    assert "1 segment," in one.err
    assert count(run, store) == sum(
        1
        for day in DAYS
        for row in day
        if not "2013-01-02T12" <= str(row["__time"]) < "2013-01-03T12"
    )


def test_a_deletion_is_reverted_and_the_rows_are_back(run: Run, store: Path) -> None:
    deleted = run(
        "delete", "flights", "--interval", "2013-01-02/P1D", "--store", str(store), "--json"
    ).json
    assert (deleted["revision"], deleted["segments_dropped"]) == (4, 1)
    assert count(run, store) == ROWS - len(DAYS[1])
    diff = run("diff", "3", "4", "--store", str(store), "--json").json["datasources"]
    assert diff[0]["rows_removed"] == len(DAYS[1])
    assert run("revert", "4", "--store", str(store), "--json").json == {
        "revision": 5,
        "reverted": 4,
    }
    assert count(run, store) == ROWS
    assert count(run, store, "4") == ROWS - len(DAYS[1])


def test_tags_name_revisions_and_can_be_moved_and_removed(run: Run, store: Path) -> None:
    run("tag", "good", "--at", "1", "--store", str(store))
    assert count(run, store, "good") == len(DAYS[0])
    run("tag", "good", "--at", "2", "--store", str(store))
    assert run("tags", "--store", str(store), "--json").json["tags"][0]["revision"] == 2
    assert "[good]" in run("log", "--store", str(store)).out
    run("tag", "better", "--at", "2", "--store", str(store))
    assert "[better, good]" in run("log", "--store", str(store)).out
    run("tag", "better", "--remove", "--store", str(store))
    run("tag", "good", "--remove", "--store", str(store))
    assert run("tags", "--store", str(store), "--json").json["tags"] == []


def test_lookups_are_set_from_csv_and_json_and_join_in_sql(
    run: Run, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "airlines.csv").write_text("code,name\nUA,United\nAA,American\n")
    set_ = run("lookups", "set", "airlines", "airlines.csv", "--store", str(store), "--json").json
    assert set_ == {"revision": 4, "lookup": "airlines", "keys": 2}
    held = run("lookups", "list", "--store", str(store), "--json").json["lookups"]
    assert held == {"airlines": {"AA": "American", "UA": "United"}}
    (tmp_path / "one.csv").write_text("code,name\nUA,United\n")
    told = run("lookups", "set", "one", "one.csv", "--store", str(store)).out
    assert told == "revision 5: lookup one has 1 key\n"
    run("lookups", "remove", "one", "--store", str(store))
    joined = (
        "SELECT airlines.v AS airline, count(*) AS n FROM flights "
        "JOIN lookup.airlines ON airlines.k = carrier GROUP BY airline ORDER BY airline"
    )
    rows = run("sql", joined, "--store", str(store), "--json").json["rows"]
    assert [row["airline"] for row in rows] == ["American", "United"]
    assert sum(row["n"] for row in rows) == ROWS
    run("lookups", "remove", "airlines", "--store", str(store))
    assert run("lookups", "list", "--store", str(store), "--json").json["lookups"] == {}
    assert "airlines" in run("lookups", "list", "--at", "4", "--store", str(store)).out


def test_verify_finds_a_damaged_and_a_missing_file(run: Run, store: Path) -> None:
    files = sorted((store / "deep-storage").rglob("*.parquet"))
    data = bytearray(files[0].read_bytes())
    data[len(data) // 2] ^= 1
    files[0].write_bytes(data)
    files[1].unlink()
    done = run("verify", "--store", str(store), "--json", code=7)
    assert sorted(item["kind"] for item in done.json["findings"]) == ["checksum", "missing"]
    assert "2 findings" in run("verify", "--store", str(store), code=7).err


def test_a_store_may_be_moved(run: Run, store: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    store.rename(moved)
    assert count(run, moved) == ROWS
    run("verify", "--store", str(moved))


def test_init_is_idempotent_and_refuses_another_deep_storage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("init", "events", "--json").json
    assert first["revision"] == 0
    assert first["deep_storage"].endswith("/events/deep-storage")
    assert run("init", "events", "--json").json == first
    done = run("init", "events", "--deep-storage", str(tmp_path / "other"), code=2)
    assert "is there already" in done.err
    elsewhere = run("init", "far", "--deep-storage", str(tmp_path / "files"), "--json").json
    assert elsewhere["deep_storage"] == (tmp_path / "files").as_uri()
    with monkeypatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        for _ in range(2):
            mine = run("init", "mine", "--deep-storage=~/mine-files", "--json").json
            assert mine["deep_storage"] == (tmp_path / "mine-files").as_uri()
    done = run("init", "none", "--deep-storage", "/dev/null/x", code=2)
    assert (
        "folder /dev/null/x of deep storage cannot be made (not a directory); name another"
        in done.err
    )


def test_the_store_is_found_by_option_environment_and_file(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "carnac.toml").write_text(f'store = "{store}"\n')
    assert run("log", "--json").json["commits"]
    monkeypatch.setenv("CARNAC_STORE", str(tmp_path / "nowhere"))
    assert "nowhere" in run("log", code=5).err
    assert run("log", "--store", str(store), "--json").json["commits"]


def test_picture_in_every_format(run: Run, store: Path, tmp_path: Path) -> None:
    run("delete", "flights", "--interval", "2013-01-02T12:00/2013-01-03", "--store", str(store))
    svg = tmp_path / "flights.svg"
    done = run("picture", "flights", "-o", str(svg), "--store", str(store), "--json").json
    assert done["size_bytes"] == svg.stat().st_size
    text = svg.read_text()
    assert text.startswith("<svg")
    assert "flights at revision 4" in text
    assert "hatched" in text
    run("picture", "flights", "-o", "f.png", "--at", "3", "--store", str(store))
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    run("picture", "flights", "-o", "f.html", "--store", str(store))
    page = (tmp_path / "f.html").read_text()
    assert "vega" in page
    assert "<script src" not in page, "the page must not need a network"


def test_a_name_or_text_cannot_break_the_table_or_the_terminal(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "odd"
    rows: tuple[Row, ...] = ({"__time": "2013-01-01T01:00:00Z", "text": "a\nb\x1b[31m\tc 日本"},)
    append_rows(place, rows, datasource="odd")
    done = run("sql", "SELECT text FROM odd", "--store", str(place))
    assert done.out.splitlines()[2] == "a\\nb\\x1b[31m\\tc 日本"
    assert "\x1b" not in done.out


def test_doctor_finds_records_that_contradict_themselves(run: Run, store: Path) -> None:
    # appends leave these sums to a later commit
    run("delete", "flights", "--interval", "2013-01-02T12:00/2013-01-03", "--store", str(store))
    checks = run("doctor", "--store", str(store), "--json").json["checks"]
    assert [one["state"] for one in checks if one["name"] == "records"] == ["ok"]
    with edited(store / "metadata.db") as link:
        link.execute("UPDATE schemas SET rows = rows + 1")
    done = run("doctor", "--store", str(store), "--json", code=1)
    assert done.json["ok"] is False
    wrong = [one for one in done.json["checks"] if one["name"] == "records"]
    assert {one["state"] for one in wrong} == {"problem"}
    assert all("flights" in one["detail"] for one in wrong)


def test_sql_stops_after_its_timeout(run: Run, store: Path) -> None:
    endless = (
        "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
    )
    done = run("sql", endless, "--timeout", "0.1", "--store", str(store), code=4)
    assert "took longer than 100 ms and was stopped" in done.err


def test_sql_names_the_segment_whose_file_is_damaged(run: Run, store: Path) -> None:
    place = next((store / "deep-storage" / "segments").rglob("*.parquet"))
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    done = run("sql", COUNT, "--store", str(store), code=7)
    assert place.stem in done.err


def test_doctor_tells_what_scrubbing_has_found(run: Run, store: Path) -> None:
    place = next((store / "deep-storage" / "segments").rglob("*.parquet"))
    place.write_bytes(place.read_bytes()[:-1])
    with closing(
        open_records(settings=Settings(store=str(store)), clock=SystemClock())
    ) as metadata:
        files = open_deep_storage(str(store / "deep-storage"))
        Scrubber(metadata, files, SystemClock(), bytes_per_s=1 << 30).run_round(1_000)
    done = run("doctor", "--store", str(store), code=1)
    assert f"segment {place.stem} is damaged" in done.out


def test_a_whole_datasource_is_dropped_and_taken_back(run: Run, store: Path) -> None:
    dropped = run("drop", "flights", "--yes", "--store", str(store))
    assert dropped.out == "published revision 4: flights dropped, 3 segments\n"
    assert dropped.err == "carnac revert 4 takes it back\n"
    assert run("datasources", "--store", str(store), "--json").json["datasources"] == []
    assert count(run, store, "3") == ROWS
    run("revert", "4", "--store", str(store))
    assert count(run, store) == ROWS


def test_doctor_tells_wrong_checksums_from_damage_and_mends_them(run: Run, store: Path) -> None:
    path, place = store / "metadata.db", ("--store", str(store))
    sound = path.read_bytes()
    pages = sound[: 2 * 4096 - 8] + bytes(8) + sound[2 * 4096 :]
    path.write_bytes(pages)
    assert "no damage shows" in run("doctor", *place, code=1).out
    assert "1 page got new checksums" in run("doctor", "--mend-checksums", *place).out
    assert path.read_bytes() == sound
    assert (store / "metadata.db.before-mending-1").read_bytes() == pages
    path.write_bytes(sound[:9000] + bytes([sound[9000] ^ 1]) + sound[9001:])
    assert "page 3 is what was written but for one bit" in run("doctor", *place, code=1).out
    assert "nothing was changed" in run("doctor", "--mend-checksums", *place, code=7).err


def test_doctor_tells_damage_in_what_was_written_last(run: Run, store: Path) -> None:
    with closing(
        open_records(settings=Settings(store=str(store)), clock=SystemClock())
    ) as metadata:
        metadata.put_settings({"name": "value"})
        assert "of metadata written last" in run("doctor", "--store", str(store)).out
        log = store / "metadata.db-wal"
        log.write_bytes(log.read_bytes()[:-1] + b"x")
        done = run("doctor", "--store", str(store), code=1)
    assert "of the write-ahead log" in done.out
