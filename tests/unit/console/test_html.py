"""Pages hold what strangers wrote, and run nothing of it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.dom.minidom import parseString

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.console import html as html_module
from carnac.console.balance_page import render_page
from carnac.console.export import render_chart
from carnac.console.html import embed_json, fill_page, policy_for
from carnac.core.showing import escape_text
from carnac.simulation.load import change_scenario, load_preset
from carnac.simulation.run import Simulation
from tests.browser import browser
from tests.nightly import by_day
from tests.unit.console.test_picture import draw, shown
from tests.waiting import until

HOSTILE = (
    "</script><script>document.title='broken in';alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='broken in'\">",
    "'\"><svg onload=alert(1)>",
    "{{title}} {{data}} ${alert(1)} `",
    "]]>&amp;&#x3c;script&#x3e;",
    "a\u2028b\u2029c\x00d\x1b[31m\ud800",
    "datum['constructor']['constructor']('alert(1)')()",
)
EVIL = " ".join(HOSTILE)


class Reader(HTMLParser):
    """What a browser takes for tags, and what stands in scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.data = ""
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self._is_data = ("id", "data") in attrs

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data += data
            self._is_data = False


def chart_page(text: str) -> str:
    chart = draw([shown(0, 5), shown(1, 3)], datasource=text, labels={1: text}, title=text)
    return render_chart(chart, ".html").decode()


@given(st.text() | st.sampled_from(HOSTILE))
def test_what_stands_in_a_script_is_plain_and_says_the_same(text: str) -> None:
    embedded = embed_json({text: [text]})
    assert re.fullmatch(r"[ -~]*", embedded)
    assert not set("<>&") & set(embedded)
    assert json.loads(embedded) == {text: [text]}


@given(st.text() | st.sampled_from(HOSTILE))
def test_what_stands_in_a_page_has_no_tags_and_is_shown_as_it_is(text: str) -> None:
    reader = Reader()
    page = fill_page("<p>{{a}}</p>{{policy}}", {"a": escape_text(text), "data": "never"})
    reader.feed(page)
    reader.close()
    assert reader.tags == ["p", "meta"]
    assert "never" not in page or "never" in text
    page.encode()


def test_a_policy_names_the_scripts_of_the_template_and_nobody_else() -> None:
    page = fill_page("{{policy}}<script>own()</script>{{a}}", {"a": "<script>theirs()</script>"})
    assert policy_for(["own()"]) in page
    assert policy_for(["own()"]).count("sha256-") == 1
    assert "script-src 'none'" in policy_for([])


@pytest.mark.slow
@pytest.mark.parametrize("text", by_day([EVIL, *HOSTILE], 3), ids=repr)
def test_a_chart_says_what_strangers_wrote_and_no_more(text: str) -> None:
    plain, reader = Reader(), Reader()
    plain.feed(chart_page("flights"))
    page = chart_page(text)
    reader.feed(page)
    assert reader.tags == plain.tags
    assert "Content-Security-Policy" in page
    title = json.loads(reader.data)["title"]["text"]
    assert title == text or "�" in title
    chart = draw([shown(0, 5)], datasource=text, labels={1: text}, title=text)
    svg = parseString(render_chart(chart, ".svg"))
    assert not svg.getElementsByTagName("script") + svg.getElementsByTagName("img")


@pytest.mark.slow
def test_a_browser_runs_our_script_and_no_stranger_s(tmp_path: Path) -> None:
    page_file = tmp_path / "evil.html"
    page_file.write_text(chart_page(EVIL), encoding="utf-8")
    with browser() as page:
        page.open(page_file)
        title, marks = page.evaluate(
            "[document.title, document.querySelectorAll('.mark-rect path').length]"
        )
        page.point_at(".mark-rect path")
        tooltip = page.evaluate("document.querySelector('#vg-tooltip-element.visible')?.innerText")
        page.picture(tmp_path / "evil.png")
        assert title.startswith("</script><script>")
        assert marks == 2
        assert "time chunk" in tooltip, "the page answers the mouse"
        assert "</script><script>" in tooltip
        assert page.complaints == []
        assert page.requests == [page_file.as_uri()]


_LETTERS = "Math.min(...[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height))"
"""Pixels of the lowest text."""


@pytest.mark.slow
@pytest.mark.parametrize("title", ["flights", "a long title " * 30], ids=["short", "long"])
@pytest.mark.parametrize("width", [390, 1200])
def test_a_chart_can_be_read_whatever_its_title_and_window(
    tmp_path: Path, width: int, title: str
) -> None:
    page_file = tmp_path / "chart.html"
    page_file.write_text(chart_page(title), encoding="utf-8")
    with browser() as page:
        page.look(width=width, is_dark=False)
        page.open(page_file)
        page.picture(tmp_path / "chart.png")
        assert page.evaluate("document.documentElement.clientWidth") == width
        assert page.evaluate(_LETTERS) >= 7
        assert page.complaints == []


_CORNER = "[...document.getElementById('cloud').getContext('2d').getImageData(0, 0, 1, 1).data].slice(0, 3)"
"""Red, green and blue of the cloud's first point, where no segment is."""


@pytest.mark.slow
def test_a_browser_plays_a_simulation_of_a_hostile_name(tmp_path: Path) -> None:
    name = EVIL.replace("\ud800", "")  # which a scenario refuses
    scenario = change_scenario(
        load_preset("small"),
        {"days": 1, "history": {"days": 2, "movesPerHour": 10}, "events": [], "name": name},
    )
    svg = render_chart(draw([shown(0, 5)], title=EVIL), ".svg").decode()
    page_file = tmp_path / "story.html"
    page_file.write_text(render_page(Simulation(scenario).run(("cost",)), [svg]), encoding="utf-8")
    with browser() as page:
        page.open(page_file, "#hour=5")
        assert page.evaluate("document.getElementById('clock').innerText") == "t + 5 hours"
        page.point_at("#play", click=True)
        page.evaluate("new Promise(done => setTimeout(done, 400))")
        page.picture(tmp_path / "story.png")
        assert page.evaluate("document.getElementById('clock').innerText") != "t + 5 hours"
        assert page.evaluate("document.title").startswith("Balancing: </script>")
        page.look(width=390, is_dark=True)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        until(lambda: page.evaluate(_CORNER) == [13, 17, 23], "a dark cloud on a dark page")
        assert page.complaints == []
        assert page.requests == [page_file.as_uri()]


def test_nothing_else_of_the_console_escapes_texts_or_writes_json() -> None:
    folder = Path(html_module.__file__).parent
    found = {
        path.name
        for path in folder.glob("*.py")
        if re.search(
            r"import html|html\.escape|json\.dumps|\.replace\(\"\{\{", path.read_text("utf-8")
        )
    }
    assert found == {"html.py"}
