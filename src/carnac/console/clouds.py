"""The places of segments as clouds of points, as in source 2.

A band per server, the start of the segment's interval upwards, colour by datasource.

Every segment is drawn, however many: the points are painted into a raster, which the chart holds as a picture between
its axes. A point lies somewhere in its server's band; where is drawn at random, from a fixed seed.

Source: "Distributing Data in Druid at Petabyte Scale" draws the same with ggplot2's `geom_jitter`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from carnac.console.looks import FONT, HOURS, chart_head, color, layer
from carnac.console.png import encode_png
from carnac.core.words import counted
from carnac.errors import Invalid

if TYPE_CHECKING:
    import numpy.typing as npt

    from carnac.console.looks import Chart

WIDTH, HEIGHT = 1080, 420
SHADES = 10
"""Strengths of a colour, by how many points of it lie on one pixel."""
HUES = (
    "#33658a", "#d1495b", "#2a9d8f", "#f08a24", "#8e6c8a", "#55a630", "#c2185b", "#86bbd8",
    "#b08900", "#5e60ce", "#7f5539", "#e0a1b8", "#6c757d", "#00798c", "#9d0208", "#4361ee",
    "#90be6d", "#e07a5f", "#3d405b", "#bc6c25", "#577590", "#f28482", "#606c38", "#9c89b8",
    "#118ab2",
)  # fmt: skip
"""Colours of datasources; where there are more datasources, they come again."""
LEGEND_MAX = 12
STRONGEST_POINT = 0.6
"""Strength of a point that lies alone."""
DENSE = 0.25
"""Points per pixel from which on points are one pixel wide."""
MANY = 4_000
"""Points from which on they are two pixels wide."""
FEW = 300
"""Points up to which they are seven pixels wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Segments on servers, one element each.

    Attributes:
        server: Number of the band, from 0 up.
        color: Number of the datasource, from 0 up.
    """

    server: npt.NDArray[np.int64]
    start_ms: npt.NDArray[np.int64]
    color: npt.NDArray[np.int64]
    servers: Sequence[str]
    datasources: Sequence[str]

    def __len__(self) -> int:
        return len(self.server)


def cloud_of(rows: Iterable[tuple[str, str, int]], servers: Iterable[str] = ()) -> Cloud:
    """Return segments as a cloud; a row is its server, its datasource and the start of its interval.

    Args:
        servers: Have a band even if they hold nothing.
    """
    found = list(rows)
    servers = sorted({*servers, *(row[0] for row in found)})
    datasources = sorted({row[1] for row in found})
    bands = {name: number for number, name in enumerate(servers)}
    colors = {name: number for number, name in enumerate(datasources)}
    return Cloud(
        server=np.array([bands[row[0]] for row in found], np.int64),
        start_ms=np.array([row[2] for row in found], np.int64),
        color=np.array([colors[row[1]] for row in found], np.int64),
        servers=servers,
        datasources=datasources,
    )


def paint_cloud(
    cloud: Cloud, *, low_ms: int, high_ms: int, width: int = WIDTH, height: int = HEIGHT
) -> bytes:
    """Return the points as a PNG of so many pixels; the newest are on top, what is outside is cut off."""
    keep = (cloud.start_ms >= low_ms) & (cloud.start_ms < high_ms)
    count = int(keep.sum())
    draw = np.random.default_rng(20160630)
    gap = 0.12 if width / len(cloud.servers) >= 5 else 0.0
    inside = gap / 2 + (1 - gap) * draw.random(count)
    x = ((cloud.server[keep] + inside) * (width / len(cloud.servers))).astype(np.int64)
    share = (cloud.start_ms[keep] - low_ms) / (high_ms - low_ms)
    # Starts are whole hours or days: without a little jitter they would lie on lines.
    y = height - 1 - (share * height + draw.random(count) - 0.5).astype(np.int64)
    x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    hue = cloud.color[keep] % len(HUES)
    size = _point_size(count, width * height)
    # the outermost points are whole, too
    x, y = np.minimum(x, max(0, width - size)), np.minimum(y, max(0, height - size))
    pixels = np.zeros((height, width), np.uint8)
    order = draw.permutation(count)
    reach = range(size)
    places = [
        np.minimum(y[order] + dy, height - 1) * width + np.minimum(x[order] + dx, width - 1)
        for dy in reach
        for dx in reach
    ]
    top = np.full(height * width, -1, np.int64)
    depth = np.zeros(height * width, np.int64)
    for place in places:
        top[place] = hue[order]
        depth += np.bincount(place, minlength=height * width)
    painted = top >= 0
    # A pixel as full as the mean has half of the strength, so that clusters and gaps can be told from it.
    mean = max(1.0, depth.sum() / max(1, depth.size))
    faint = min(STRONGEST_POINT, 1 - 0.5 ** (1 / mean))
    strength = 1 - (1 - faint) ** depth[painted]
    shade = np.minimum((strength * SHADES).astype(np.int64), SHADES - 1)
    pixels.reshape(-1)[painted] = 1 + top[painted] * SHADES + shade
    return encode_png(pixels, _palette())


def _point_size(count: int, pixels: int) -> int:
    """Return how many pixels a point is wide: the fewer there are, the larger, so that a few can be seen at all."""
    if count / pixels >= DENSE:
        return 1
    if count > FEW:
        return 2 if count > MANY else 3
    return 7


def draw_cloud(
    cloud: Cloud,
    *,
    title: str,
    subtitle: str,
    marks: Sequence[tuple[int, str]] = (),
    detail: float = 1.0,
) -> Chart:
    """Return the chart of the points.

    Args:
        marks: Servers to point out, and what to say of them.
        detail: Pixels of the raster for each one of the chart; fewer make a smaller file.

    Raises:
        Invalid: There is nothing to draw.
    """
    if not len(cloud):
        raise Invalid("there is no segment on any server, so there is nothing to draw")
    low = int(cloud.start_ms.min())
    high = max(int(cloud.start_ms.max()) + 1, low + 3_600_000)
    png = paint_cloud(
        cloud,
        low_ms=low,
        high_ms=high,
        width=round(WIDTH * detail),
        height=round(HEIGHT * detail),
    )
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    return {
        **chart_head(title, subtitle),
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [_frame(cloud, low, high), _image(url), *_marks(cloud, marks), *_legend(cloud)],
        "config": {"font": FONT, "view": {"stroke": "#ddd"}},
    }


def _palette() -> list[tuple[int, int, int]]:
    """Return white, then each hue in rising strength."""
    colors = [(255, 255, 255)]
    for hue in HUES:
        rgb = [int(hue[at : at + 2], 16) for at in (1, 3, 5)]
        for shade in range(SHADES):
            alpha = (shade + 0.75) / SHADES
            red, green, blue = (round(255 + (part - 255) * alpha) for part in rgb)
            colors.append((red, green, blue))
    return colors


def _frame(cloud: Cloud, low: int, high: int) -> Chart:
    """Return the axes, as two points that cannot be seen."""
    count = len(cloud.servers)
    ends: list[Chart] = [{"server": 0, "start": low}, {"server": count, "start": high}]
    few = count <= 40
    labels = " : ".join(
        f"datum.value == {index + 0.5} ? '{_quoted(name)}'"
        for index, name in enumerate(cloud.servers if few else ())
    )
    axis: Chart = {
        "title": f"{counted(count, 'server')}, one band each",
        "titleFontSize": 12,
        "titleColor": "#444",
        "grid": False,
        "ticks": False,
        "labels": few,
        "domainColor": "#999",
    }
    if few:
        axis |= {
            "values": [index + 0.5 for index in range(count)],
            "labelExpr": f"{labels} : ''",
            "labelFontSize": 10,
            "labelColor": "#444",
            "labelOverlap": True,
        }
    y = {
        "field": "start",
        "type": "temporal",
        "scale": {"type": "utc", "nice": False},
        "title": "start of the segment's interval",
        "axis": {
            "titleFontSize": 12, "titleColor": "#444", "labelColor": "#444",
            "labelFontSize": 11.5, "grid": False, "domainColor": "#999", "format": HOURS,
        },
    }  # fmt: skip
    x = {"field": "server", "type": "quantitative", "scale": {"nice": False}, "axis": axis}
    return layer(ends, {"type": "point", "opacity": 0}, x=x, y=y)


def _image(url: str) -> Chart:
    mark = {
        "type": "image", "aspect": False, "width": WIDTH, "height": HEIGHT,
        "align": "left", "baseline": "top", "smooth": False,
    }  # fmt: skip
    return layer([{"url": url}], mark, url={"field": "url"}, x={"value": 0}, y={"value": 0})


def _marks(cloud: Cloud, marks: Sequence[tuple[int, str]]) -> list[Chart]:
    """Return small arrows above the bands of servers, with what there is to say of them."""
    step = WIDTH / len(cloud.servers)
    found = []
    for server, label in marks:
        align = "left" if server < len(cloud.servers) * 0.8 else "right"
        mark = {
            "type": "text", "align": align, "baseline": "bottom",
            "fontSize": 11, "color": "#222", "dx": -4,
        }  # fmt: skip
        x, y = {"value": (server + 0.5) * step}, {"value": -2}
        found.append(layer([{"label": f"▼ {label}"}], mark, text={"field": "label"}, x=x, y=y))
    return found


def _legend(cloud: Cloud) -> list[Chart]:
    """Return a legend of the datasources, if they are few enough to be told apart."""
    names = list(cloud.datasources)
    if not 1 < len(names) <= LEGEND_MAX:
        return []
    hues = dict(zip(names, HUES, strict=False))
    colors = color("name", hues, symbolType="square", symbolSize=90, labelFontSize=12)
    return [layer([{"name": name} for name in names], {"type": "square", "size": 0}, color=colors)]


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
