"""Texts at every door where something new gets a name: refused by one sentence, and nothing has happened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.log.allocation import AllocationRequest
from carnac.core.log.commits import CommitKind, LookupChange, Publication
from carnac.core.tasks.leadership import Candidacy
from carnac.errors import CarnacError, Invalid
from carnac.metadata.names import require_tag_name
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.load import load_spec
from carnac.specs.tasks.spec import load_task
from tests import hostile

DELETE = {"type": "delete", "dataSource": "events", "interval": "2015/P1D"}
SPEC = {"dataSource": "events", "input": {"type": "inline", "data": "{}"}}
PLACE = {"datasource": "e", "at_ms": 0, "segment_granularity": "day", "sequence": "s", "owner": "o"}


def publication(**said: Any) -> Publication:
    return Publication(kind=CommitKind.LOOKUP, **said)


NAMES: dict[str, Callable[[Any], object]] = {
    "the id of a task": lambda name: load_task({**DELETE, "id": name}),
    "a group": lambda name: load_task({**DELETE, "groupId": name}),
    "what it depends on": lambda name: load_task({**DELETE, "dependencies": ["a", name]}),
    "a key of its context": lambda name: load_task({**DELETE, "context": {"a": [{name: 1}]}}),
    "the datasource of a task": lambda name: load_task({**DELETE, "dataSource": name}),
    "the datasource of a spec": lambda name: load_spec({**SPEC, "dataSource": name}),
    "a dimension": lambda name: load_spec({**SPEC, "dimensionsSpec": {"dimensions": [name]}}),
    "a metric": lambda name: load_spec({**SPEC, "metricsSpec": [{"type": "count", "name": name}]}),
    "a writer of a spec": lambda name: load_spec({**SPEC, "writer": name, "batch": "a"}),
    "compaction": lambda name: load_compaction({"dataSource": name}),
    "a writer": lambda name: publication(writer=name, batch="a"),
    "a batch": lambda name: publication(writer="a", batch=name),
    "a lookup": lambda name: publication(lookups=(LookupChange(name=name, mapping={}),)),
    "a tag": require_tag_name,
    "a leader": lambda name: Candidacy(role="r", leader_id="l", holder=name, lease_ms=1),
    "an owner": lambda name: AllocationRequest(**{**PLACE, "owner": name}),
    "a sequence": lambda name: AllocationRequest(**{**PLACE, "sequence": name}),
}
TEXTS: dict[str, Callable[[Any], object]] = {
    "a text of a context": lambda text: load_task({**DELETE, "context": {"a": {"b": [text]}}}),
    "a predicate": lambda text: load_task({**DELETE, "where": text}),
    "a message": lambda text: publication(message=text),
    "an offset": lambda text: publication(offsets={"a": text}),
    "a key of a lookup": lambda text: publication(
        lookups=(LookupChange(name="a", mapping={text: "a"}),)
    ),
    "a value of a lookup": lambda text: publication(
        lookups=(LookupChange(name="a", mapping={"a": text}),)
    ),
}


@pytest.mark.parametrize("door", NAMES)
@given(name=hostile.unfit_names)
def test_no_name_has_a_control_character(door: str, name: str) -> None:
    with pytest.raises(Invalid) as caught:
        NAMES[door](name)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("door", TEXTS)
@given(text=hostile.unfit_texts)
def test_no_text_has_one_that_is_no_line_end(door: str, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        TEXTS[door](text)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("door", {**NAMES, **TEXTS})
@given(text=hostile.texts)
def test_what_is_odd_is_taken_or_refused(door: str, text: str) -> None:
    with suppress(CarnacError):
        {**NAMES, **TEXTS}[door](text)


@pytest.mark.parametrize("load", [load_task, load_spec, load_compaction])
@given(
    value=st.dictionaries(
        st.sampled_from([*SPEC, *DELETE, "id", "context", "spec", "target", "ageRules"])
        | hostile.texts,
        hostile.values,
        max_size=4,
    )
)
def test_whatever_is_written_there_is_one_sentence(load: Any, value: dict[str, object]) -> None:
    for base in ({}, SPEC, DELETE):
        with suppress(CarnacError):
            load({**base, **value})


def test_data_may_hold_what_no_name_may() -> None:
    text = "a\x01b\x01c\n"
    inline = {"type": "inline", "data": text, "format": {"type": "tsv", "delimiter": "\x01"}}
    spec = load_spec({**SPEC, "input": inline})
    assert spec.to_json_dict()["input"]["data"] == text
    with pytest.raises(Invalid, match="surrogate"):
        load_spec({**SPEC, "input": {**inline, "data": "\ud800"}})


def test_a_lookup_that_is_there_can_be_removed_whatever_its_name() -> None:
    publication(lookups=(LookupChange(name="a\0b", mapping=None),))
