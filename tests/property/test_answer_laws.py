"""Who is asked for which segment, and what proves that an answer is complete."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from carnac.core.answers.laws import Read, check_answer, is_proved
from carnac.core.answers.replicas import Server, plan_reads
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import InvariantError

SEGMENTS = [f"s{number}" for number in range(6)]
IDS = st.frozensets(st.sampled_from(SEGMENTS))
SERVERS = st.dictionaries(
    st.sampled_from(["h1", "h2", "h3"]), st.tuples(IDS, IDS, st.integers(0, 5)), max_size=3
).map(
    lambda found: [
        Server(server_id=name, loaded=loaded, loading=loading - loaded, running=running)
        for name, (loaded, loading, running) in found.items()
    ]
)
SIZES = st.dictionaries(st.sampled_from(SEGMENTS), st.integers(1, 100))
TRIED = st.dictionaries(
    st.sampled_from(SEGMENTS), st.frozensets(st.sampled_from(["h1", "h2", "h3"]))
)


@given(SIZES, SERVERS, TRIED)
def test_each_segment_is_asked_of_one_server_and_of_the_best_kind(
    sizes: dict[str, int], servers: list[Server], tried: dict[str, frozenset[str]]
) -> None:
    found = plan_reads(sizes, servers, tried)
    asked = [segment_id for part in found.parts.values() for segment_id in part]
    assert sorted([*asked, *found.left]) == sorted(sizes)
    by_id = {one.server_id: one for one in servers}
    for server_id, part in found.parts.items():
        for segment_id in part:
            there = [one for one in servers if one.server_id not in tried.get(segment_id, ())]
            server = by_id[server_id]
            assert server in there
            if any(segment_id in one.loaded for one in there):
                assert segment_id in server.loaded
            elif any(segment_id in one.loading for one in there):
                assert segment_id in server.loading
    for segment_id in found.left:
        assert {one.server_id for one in servers} <= set(tried.get(segment_id, ()))


@given(st.integers(1, 60))
def test_what_all_have_is_shared_evenly(count: int) -> None:
    ids = {f"s{number}": 10 for number in range(count)}
    servers = [Server(server_id=name, loaded=frozenset(ids)) for name in ("h1", "h2", "h3")]
    parts = plan_reads(ids, servers, {}).parts
    sizes = [len(parts.get(one.server_id, ())) for one in servers]
    assert max(sizes) <= max(1, count / 3 * 9 / 8 * 9 / 8 + 1)


@given(st.integers(6, 60), st.integers(0, 59))
def test_most_segments_are_asked_of_whom_they_were_asked_before(count: int, gone: int) -> None:
    ids = {f"s{number}": 10 for number in range(count)}
    servers = [Server(server_id=name, loaded=frozenset(ids)) for name in ("h1", "h2", "h3")]

    def placed(sizes: dict[str, int]) -> dict[str, str]:
        parts = plan_reads(sizes, servers, {}).parts
        return {one: server_id for server_id, part in parts.items() for one in part}

    before = placed(ids)
    after = placed({one: size for one, size in ids.items() if one != f"s{gone}"})
    moved = [one for one, server_id in after.items() if before[one] != server_id]
    assert len(moved) <= 3 + count // 4


@given(st.lists(st.integers(1 << 24, (1 << 25) - 1), min_size=16, max_size=60), st.integers(2, 5))
def test_a_segment_more_moves_no_other_while_the_fair_part_is_the_same(
    sizes: list[int], count: int
) -> None:
    """So sets of segments, of which servers keep results, stay whole when a day is appended."""
    ids = {f"s{number:02}": size for number, size in enumerate(sizes)}
    newest = f"s{len(sizes) - 1:02}"
    servers = [Server(server_id=f"h{one}", loaded=frozenset(ids)) for one in range(count)]
    before = plan_reads({one: ids[one] for one in ids if one != newest}, servers, {}).parts
    after = plan_reads(ids, servers, {}).parts
    total = sum(sizes)
    step = 1 << (total.bit_length() - 4)
    assume(-(-total // step) == -(-(total - ids[newest]) // step))
    assume(total.bit_length() == (total - ids[newest]).bit_length())
    without = {name: [one for one in part if one != newest] for name, part in after.items()}
    assert {name: part for name, part in without.items() if part} == dict(before)


PART_BYTES = 100


@given(st.lists(st.integers(1, PART_BYTES), min_size=1, max_size=60))
def test_a_server_more_is_asked_only_for_a_part_more(sizes: list[int]) -> None:
    ids = {f"s{number}": size for number, size in enumerate(sizes)}
    servers = [Server(server_id=name, loaded=frozenset(ids)) for name in ("h1", "h2", "h3")]
    parts = plan_reads(ids, servers, {}, part_bytes=PART_BYTES).parts
    asked = [sum(ids[one] for one in part) for part in parts.values()]
    assert len(asked) == 1 or sum(asked) > PART_BYTES
    assert len(asked) == len(servers) or sum(asked) <= 2 * len(asked) * PART_BYTES


@given(st.lists(st.integers(1, PART_BYTES // 10), min_size=30, max_size=90))
def test_servers_that_are_asked_for_a_part_have_as_much_to_do(sizes: list[int]) -> None:
    ids = {f"s{number:02}": size for number, size in enumerate(sizes)}
    servers = [Server(server_id=f"h{one}", loaded=frozenset(ids)) for one in range(10)]
    parts = plan_reads(ids, servers, {}, part_bytes=PART_BYTES).parts
    fewest = -(-sum(sizes) // PART_BYTES)
    assert max(sum(ids[one] for one in part) for part in parts.values()) <= max(
        PART_BYTES if fewest == 1 else 0, sum(sizes) // fewest * 9 / 8
    )
    assert len(parts) <= fewest + 1


@given(st.lists(st.integers(1, PART_BYTES), min_size=9, max_size=60))
def test_who_is_asked_is_the_same_with_and_without_parts_where_all_are_needed(
    sizes: list[int],
) -> None:
    ids = {f"s{number:02}": size for number, size in enumerate(sizes)}
    servers = [Server(server_id=f"h{one}", loaded=frozenset(ids)) for one in range(3)]
    assume(sum(sizes) > 2 * PART_BYTES)
    assert plan_reads(ids, servers, {}, part_bytes=PART_BYTES) == plan_reads(ids, servers, {})


def test_who_is_busy_is_asked_for_less() -> None:
    ids = {f"s{number}": 10 for number in range(40)}
    servers = [
        Server(server_id="calm", loaded=frozenset(ids)),
        Server(server_id="busy", loaded=frozenset(ids), running=3),
    ]
    assert list(plan_reads(ids, servers, {}).parts) == ["calm"]


@given(SIZES, SERVERS)
def test_a_cold_segment_moves_only_when_its_server_goes(
    sizes: dict[str, int], servers: list[Server]
) -> None:
    cold = [Server(server_id=one.server_id) for one in servers]
    before = plan_reads(sizes, cold, {}).parts
    for gone in cold:
        after = plan_reads(sizes, [one for one in cold if one is not gone], {}).parts
        for server_id, part in before.items():
            if server_id != gone.server_id:
                assert set(part) <= set(after[server_id])


CLIPS = st.sampled_from([None, IntervalSet((Interval(0, 5),)), IntervalSet((Interval(5, 9),))])
SLICES = st.lists(st.tuples(st.sampled_from(SEGMENTS), CLIPS), max_size=5, unique=True)


@given(st.dictionaries(st.sampled_from(["a", "b"]), SLICES), st.data())
def test_only_each_slice_once_proves_an_answer(
    needed: dict[str, list[tuple[str, IntervalSet | None]]], data: st.DataObject
) -> None:
    wanted = [(view, piece) for view, slices in needed.items() for piece in slices]
    reads = [Read(view=view, slices=(piece,), is_whole=True) for view, piece in wanted]
    assert is_proved(wanted, reads)
    check_answer(wanted, reads, [], is_complete=True)
    if not reads:
        return
    place = data.draw(st.integers(0, len(reads) - 1))
    one = reads[place]
    wrong = data.draw(
        st.sampled_from(
            [
                [*reads, one],
                reads[:place] + reads[place + 1 :],
                [
                    *reads[:place],
                    Read(view="c", slices=one.slices, is_whole=True),
                    *reads[place + 1 :],
                ],
                [
                    *reads[:place],
                    Read(view=one.view, slices=one.slices, is_whole=False),
                    *reads[place + 1 :],
                ],
                [*reads, Read(view=one.view, slices=(("other", None),), is_whole=True)],
            ]
        )
    )
    assert not is_proved(wanted, wrong)
    with pytest.raises(InvariantError, match="AN-1"):
        check_answer(wanted, wrong, [], is_complete=True)


@given(SLICES, st.integers(0, 4))
def test_what_is_not_read_is_said_to_be_missing(
    slices: list[tuple[str, IntervalSet | None]], cut: int
) -> None:
    wanted = [("a", piece) for piece in slices]
    reads = [Read(view="a", slices=tuple(slices[:cut]), is_whole=True)]
    check_answer(wanted, reads, wanted[cut:], is_complete=not wanted[cut:])
    if wanted[cut:]:
        with pytest.raises(InvariantError, match="AN-2"):
            check_answer(wanted, reads, [], is_complete=False)
