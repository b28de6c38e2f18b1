"""What queries see when a server dies during a replacement, for random replacements."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.replacement import AnswerKind, Course, Death, Replacement, Way, simulate

LONG_S = 200
"""Longer than each of these replacements, one load after the other."""
DEATHS = st.sampled_from(Death)


@st.composite
def replacements(draw: st.DrawFn) -> Replacement:
    servers = draw(st.integers(2, 4))
    old_on = draw(st.lists(st.integers(0, servers - 1), min_size=1, max_size=6))
    new = draw(st.integers(1, 4))
    count = len(old_on) + new
    return Replacement(
        old_on=old_on,
        new=new,
        load_s=draw(st.lists(st.integers(2, 7), min_size=count, max_size=count)),
        servers=servers,
        victim=draw(st.integers(0, servers - 1)),
        publish_s=draw(st.integers(0, 5)),
        notice_s=draw(st.integers(1, 9)),
        linger_s=draw(st.integers(1, 12)),
        seconds=LONG_S,
    )


def shown(course: Course) -> list[AnswerKind]:
    return [one.kind for one in course.seconds]


@given(replacements(), DEATHS)
@example(Replacement(), Death.SWITCHED)
def test_with_cold_reads_every_second_is_whole(scenario: Replacement, death: Death) -> None:
    course = simulate(scenario, Way.COLD, death)
    assert all(kind.is_whole for kind in shown(course))


@given(replacements(), DEATHS)
def test_a_told_revision_is_never_short_and_never_goes_back(
    scenario: Replacement, death: Death
) -> None:
    course = simulate(scenario, Way.FILES, death)
    assert AnswerKind.SHORT not in shown(course)
    news = [one.is_new for one in course.seconds]
    assert news == sorted(news)


@pytest.mark.slow
@given(replacements())
def test_the_fallback_is_short_where_nothing_is_left_to_fall_back_to(scenario: Replacement) -> None:
    course = simulate(scenario, Way.FALLBACK, Death.DROPPED)
    has_lost = AnswerKind.REFUSED in shown(course)  # the dead server had a new segment
    assert (AnswerKind.SHORT in shown(course)) == has_lost


@pytest.mark.slow
@given(replacements(), DEATHS, st.sampled_from(Way))
def test_no_row_is_seen_twice_and_all_end_with_the_new_ones(
    scenario: Replacement, death: Death, way: Way
) -> None:
    course = simulate(scenario, way, death)
    assert all(0 <= one.share <= 1 + 1e-9 for one in course.seconds)
    assert course.seconds[-1].kind is AnswerKind.NEW


@given(replacements(), st.sampled_from(Way))
def test_without_a_death_nobody_notices_anything(scenario: Replacement, way: Way) -> None:
    assert set(shown(simulate(scenario, way))) == {AnswerKind.OLD, AnswerKind.NEW}


def test_the_fallback_is_whole_where_all_it_falls_back_to_lives() -> None:
    scenario = Replacement(old_on=(1, 2, 1, 2, 1, 2))
    seen = shown(simulate(scenario, Way.FALLBACK, Death.SWITCHED))
    assert AnswerKind.SHORT not in seen
    assert AnswerKind.OLD in seen[seen.index(AnswerKind.NEW) :]


@pytest.mark.parametrize("death", Death)
def test_the_same_replacement_is_the_same_course(death: Death) -> None:
    first, again = (simulate(Replacement(), Way.FALLBACK, death) for _ in range(2))
    assert first == again
