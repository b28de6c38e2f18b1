"""The reference page of the spec is complete."""

from __future__ import annotations

import pytest

from carnac.specs.base import SpecModel
from carnac.specs.ingest.inputs import ColumnarFormat, DelimitedFormat
from carnac.specs.ingest.schema import MEANING_BY_TYPE, MetricType
from carnac.specs.problems import nested_models
from scripts.docs import spec_page as reference

OTHER_PAGES = ("carnac.specs.compaction.spec", "carnac.specs.tasks.spec")
"""Their blocks are on pages of their own."""


def all_blocks() -> set[type[SpecModel]]:
    """Return every block there is, by what inherits from the base."""
    found: set[type[SpecModel]] = set()
    waiting = [SpecModel]
    while waiting:
        subclasses = [
            m
            for m in waiting.pop().__subclasses__()
            if m.__module__.startswith("carnac.specs") and m.__module__ not in OTHER_PAGES
        ]
        found.update(subclasses)
        waiting.extend(subclasses)
    return found - {ColumnarFormat, DelimitedFormat}


def test_every_block_is_on_the_page() -> None:
    assert {model for model, _, _ in reference.BLOCKS} == all_blocks()


@pytest.mark.parametrize("model", sorted(all_blocks(), key=lambda m: m.__name__))
def test_every_field_is_described(model: type[SpecModel]) -> None:
    bare = [name for name, info in model.model_fields.items() if not info.description]
    assert bare == []
    assert model.__doc__


def test_every_nested_block_is_reached() -> None:
    reached = {
        m
        for model, _, _ in reference.BLOCKS
        for i in model.model_fields.values()
        for m in nested_models(i.annotation)
    }
    assert reached | {reference.IngestSpec} >= all_blocks()


def test_every_metric_type_has_a_meaning() -> None:
    assert set(MEANING_BY_TYPE) == set(MetricType.__args__)


def test_the_schema_names_every_field_as_it_is_written() -> None:
    properties = reference.json_schema()["properties"]
    assert list(properties)[:5] == ["dataSource", "mode", "replaceScope", "input", "timestampSpec"]
