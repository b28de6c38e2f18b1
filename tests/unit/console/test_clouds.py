from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from carnac.console.cloud_table import load_cloud
from carnac.console.clouds import HUES, SHADES, Cloud, draw_cloud, paint_cloud
from carnac.console.export import render_chart
from carnac.errors import Invalid, NotFound

HOUR_MS = 3_600_000


def cloud_of(server: list[int], hour: list[int], color: list[int] | None = None) -> Cloud:
    return Cloud(
        server=np.array(server),
        start_ms=np.array(hour) * HOUR_MS,
        color=np.array(color or [0] * len(server)),
        servers=[f"s{n}" for n in range(max(server, default=0) + 1)],
        datasources=["a", "b"],
    )


def pixels_of(png: bytes) -> np.ndarray[Any, Any]:
    """Return the palette indexes of a picture."""
    place, found = 8, b""
    width = height = 0
    while place < len(png):
        size, kind = struct.unpack_from(">I4s", png, place)
        data = png[place + 8 : place + 8 + size]
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data)
        found += data if kind == b"IDAT" else b""
        place += size + 12
    rows = np.frombuffer(zlib.decompress(found), np.uint8).reshape(height, width + 1)
    return rows[:, 1:]


def test_a_point_lies_in_the_band_of_its_server_and_at_the_height_of_its_start() -> None:
    cloud = cloud_of([0, 3], [0, 99], [0, 1])
    pixels = pixels_of(paint_cloud(cloud, low_ms=0, high_ms=100 * HOUR_MS, width=400, height=200))
    rows, columns = np.nonzero(pixels)
    low_left = (columns < 110) & (rows > 180)
    high_right = (columns > 290) & (rows < 20)
    assert low_left.any()
    assert high_right.any()
    assert (low_left | high_right).all()
    hues = {int(index - 1) // SHADES for index in pixels[pixels > 0]}
    assert hues == {0, 1}


def test_every_point_counts_and_what_is_outside_is_cut_off() -> None:
    many = cloud_of([0] * 500 + [1], [5] * 501)
    pixels = pixels_of(paint_cloud(many, low_ms=0, high_ms=10 * HOUR_MS, width=40, height=20))
    strong, weak = pixels[:, :20], pixels[:, 20:]
    assert strong.max() > weak.max() > 0
    outside = paint_cloud(many, low_ms=6 * HOUR_MS, high_ms=10 * HOUR_MS, width=40, height=20)
    assert pixels_of(outside).max() == 0


def test_a_few_points_can_be_seen_the_first_and_the_last_too() -> None:
    few = cloud_of([0, 1], [0, 48])
    pixels = pixels_of(paint_cloud(few, low_ms=0, high_ms=48 * HOUR_MS + 1, width=400, height=200))
    assert np.count_nonzero(pixels) == 2 * 7 * 7


def test_one_server_is_one() -> None:
    alone = str(draw_cloud(cloud_of([0], [1]), title="one", subtitle=""))
    assert "1 server, one band each" in alone
    assert "1 servers" not in alone
    assert "2 servers, one band each" in str(
        draw_cloud(cloud_of([0, 1], [1, 1]), title="two", subtitle="")
    )


def test_the_same_cloud_gives_the_same_picture() -> None:
    cloud = cloud_of([0, 1, 1], [1, 2, 3])
    assert paint_cloud(cloud, low_ms=0, high_ms=9 * HOUR_MS) == paint_cloud(
        cloud, low_ms=0, high_ms=9 * HOUR_MS
    )


def test_colours_come_again_when_there_are_more_datasources() -> None:
    cloud = cloud_of([0], [1], [len(HUES)])
    pixels = pixels_of(paint_cloud(cloud, low_ms=0, high_ms=9 * HOUR_MS))
    assert {int(index - 1) // SHADES for index in pixels[pixels > 0]} == {0}


@pytest.mark.slow
def test_a_chart_names_few_servers_and_points_out_what_it_is_told() -> None:
    chart = draw_cloud(
        cloud_of([0, 1], [1, 2]), title="t", subtitle="it's", marks=[(1, "replaced")]
    )
    svg = render_chart(chart, ".svg").decode()
    assert "data:image/png;base64," in svg
    assert ">s0<" in svg
    assert ">02:00<" in svg
    assert "replaced" in svg
    with pytest.raises(Invalid, match="nothing to draw"):
        draw_cloud(cloud_of([], []), title="t", subtitle="")


TABLE = pa.table(
    {
        "datasource": ["b", "a", "b"],
        "server": [254, 142, 9],
        "start": pa.array([1_456_268_400_000, 1_463_313_600_000, 1_456_268_400_000], pa.timestamp("ms")),
    }
)  # fmt: skip


def test_one_table_reads_the_same_from_every_format(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "t.parquet")
    pyarrow.csv.write_csv(TABLE, tmp_path / "t.csv")
    text = "\n".join(
        f'{{"datasource": "{row["datasource"]}", "server": {row["server"]}, "start": "{row["start"]}"}}'
        for row in TABLE.to_pylist()
    )
    (tmp_path / "t.jsonl").write_text(text)
    (tmp_path / "t.tsv").write_text(
        "datasource\tserver\tstart\nb\t254\t1456268400000\na\t142\t1463313600000\nb\t9\t1456268400000\n"
    )
    clouds = [load_cloud(tmp_path / f"t.{kind}") for kind in ("parquet", "csv", "jsonl", "tsv")]
    for cloud in clouds:
        assert list(cloud.servers) == ["9", "142", "254"]  # by number, not by letter
        assert list(cloud.server) == [2, 1, 0]
        assert list(cloud.datasources) == ["a", "b"]
        assert list(cloud.color) == [1, 0, 1]
        assert list(cloud.start_ms) == [1_456_268_400_000, 1_463_313_600_000, 1_456_268_400_000]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.xml", "", "must end in one of .csv"),
        ("t.csv", "datasource,server\na,1\n", "has no column 'start'; it has datasource, server"),
        ("t.csv", "datasource,server,start\na,1,soon\n", "'soon' is not an ISO 8601"),
        (
            "t.csv",
            "datasource,server,start\na,,2016-01-01\n",
            "'server' of .* is empty in 1 of 1 row",
        ),
        ("t.csv", "datasource,server,start\na,1,true\n", "is of type bool"),
        ("t.csv", "datasource,server,start\n", "has no rows"),
        ("t.parquet", "no parquet", "cannot be read as parquet"),
        ("t.jsonl", "{", "cannot be read as json"),
    ],
)
def test_a_wrong_table_is_one_clear_sentence(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(Invalid, match=says) as caught:
        load_cloud(path)
    assert "\n" not in caught.value.message


def test_a_missing_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no table"):
        load_cloud(tmp_path / "none.csv")
