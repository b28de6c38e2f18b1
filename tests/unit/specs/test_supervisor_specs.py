"""Druid's supervisor specs of type kafka: what is read, what has no effect, and one sentence for what is wrong."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from carnac.core.redaction import show_submitted
from carnac.errors import Invalid
from carnac.specs.ingest.inputs import CsvFormat
from carnac.specs.supervisors.kafka import Envelope, load_supervisor
from carnac.specs.tasks.spec import KafkaTask, load_task

SPEC: dict[str, Any] = {
    "type": "kafka",
    "spec": {
        "dataSchema": {
            "dataSource": "metrics-kafka",
            "timestampSpec": {"column": "timestamp", "format": "auto"},
            "dimensionsSpec": {"dimensions": [], "dimensionExclusions": ["timestamp", "value"]},
            "metricsSpec": [
                {"name": "count", "type": "count"},
                {"name": "value_sum", "fieldName": "value", "type": "doubleSum"},
            ],
            "granularitySpec": {
                "type": "uniform",
                "segmentGranularity": "HOUR",
                "queryGranularity": "NONE",
            },
        },
        "ioConfig": {
            "topic": "metrics",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "localhost:9092"},
            "taskCount": 2,
            "replicas": 1,
            "taskDuration": "PT30M",
        },
        "tuningConfig": {"type": "kafka", "maxRowsPerSegment": 5_000_000},
    },
}
"""The spec of Druid's tutorial."""


def changed(**fields: object) -> dict[str, Any]:
    """Return the spec with fields in other places: `ioConfig__topic`."""
    spec = deepcopy(SPEC)
    for path, value in fields.items():
        block = spec["spec"]
        *outer, name = path.split("__")
        for one in outer:
            block = block[one]
        if value is None:
            block.pop(name, None)
        else:
            block[name] = value
    return spec


def test_druids_spec_as_it_is() -> None:
    found = load_supervisor(SPEC)
    assert (found.supervisor_id, found.datasource, found.topic) == (
        "metrics-kafka",
        "metrics-kafka",
        "metrics",
    )
    assert (found.tasks, found.task_ms, found.publish_ms) == (2, 1_800_000, 2_000)
    assert (found.use_earliest_offset, found.resets, found.is_suspended) == (False, False, False)
    assert found.load.mode == "append"
    assert found.load.granularity.rollup is True
    assert dict(found.properties) == {"bootstrap.servers": "localhost:9092"}
    assert [path for path, _ in found.ignored] == ["spec.ioConfig.replicas"]


def test_without_the_envelope_it_is_the_same() -> None:
    flat = {"type": "kafka", **SPEC["spec"]}
    assert load_supervisor(flat).load == load_supervisor(SPEC).load


def test_a_spec_as_druid_gives_it_out_is_the_same() -> None:
    """`GET /druid/indexer/v1/supervisor/ID` of Druid has parts twice, fields twice, and its defaults."""
    spec = changed(
        ioConfig__stream="metrics",
        ioConfig__useEarliestSequenceNumber=False,
        tuningConfig__intermediateHandoffPeriod="P2147483647D",
    )
    given = {**spec, **spec["spec"], "context": None, "suspended": False}
    found = load_supervisor(given)
    plain = load_supervisor(SPEC)
    assert (found.topic, found.publish_ms) == (plain.topic, plain.publish_ms)
    assert found.load.dimensions == plain.load.dimensions
    assert {"dataSchema", "spec.ioConfig.stream"} <= {path for path, _ in found.ignored}


def test_flags_may_be_texts() -> None:
    given = changed(suspended="false", ioConfig__useEarliestOffset="true")
    found = load_supervisor({**given, "suspended": "true"})
    assert (found.is_suspended, found.use_earliest_offset) == (True, True)
    assert not load_supervisor(given).is_suspended


def test_names_of_its_own_suspended_and_context() -> None:
    spec = changed(id="mine", suspended=True, context={"priority": 80})
    found = load_supervisor(spec)
    assert (found.supervisor_id, found.is_suspended) == ("mine", True)
    assert found.context == {"priority": 80}


def test_properties_of_the_java_client_are_those_of_the_library() -> None:
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    given = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
        "fetch.max.wait.ms": 100,
        "group.id": "druid",
        "enable.auto.commit": False,
    }
    found = load_supervisor(changed(ioConfig__consumerProperties=given))
    assert dict(found.properties) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "fetch.wait.max.ms": "100",
    }
    assert "p" not in repr(found.properties["sasl.username"])
    shown = repr(show_submitted(changed(ioConfig__consumerProperties=given)))
    assert "LoginModule" not in shown
    assert "'sasl.jaas.config': '***'" in shown


def test_the_format_kafka_names_columns_for_what_is_beside_the_value() -> None:
    given = {
        "type": "kafka",
        "valueFormat": {"type": "json"},
        "headerFormat": {"type": "string"},
        "keyFormat": {"type": "json"},
        "timestampColumnName": "at",
    }
    found = load_supervisor(changed(ioConfig__inputFormat=given))
    assert found.envelope == Envelope(timestamp="at", keeps_headers=True, keeps_key=True)
    assert load_supervisor(SPEC).envelope is None


def test_csv_names_its_columns() -> None:
    given = {"type": "csv", "columns": ["timestamp", "value"]}
    found = load_supervisor(changed(ioConfig__inputFormat=given))
    assert isinstance(found.format, CsvFormat)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dataSchema": None}, "spec.dataSchema: is required, as an object"),
        ({"dataSchema__dataSource": None}, "spec.dataSchema.dataSource: is required"),
        ({"dataSchema__foo": 1}, "spec.dataSchema.foo: unknown field"),
        ({"ioConfig__topic": None}, "spec.ioConfig.topic: is required, or topicPattern"),
        ({"ioConfig__topicPattern": "a.*"}, "topic: is given beside topicPattern"),
        ({"ioConfig__topic": 7}, "spec.ioConfig.topic: must be a text, not 7"),
        ({"ioConfig__inputFormat": None}, "spec.ioConfig.inputFormat: is required"),
        ({"ioConfig__inputFormat": {"type": "avro_stream"}}, "'avro_stream' is not read here; use"),
        ({"ioConfig__inputFormat": {"type": "parquet"}}, "'parquet' is not read here; use json"),
        ({"ioConfig__inputFormat": {"type": "csv"}}, "inputFormat.columns: is required: a message"),
        ({"ioConfig__consumerProperties": None}, "consumerProperties: is required, with boot"),
        ({"ioConfig__consumerProperties": {}}, "bootstrap.servers: is required: host:port"),
        (
            {"ioConfig__consumerProperties": {"bootstrap.servers": "a:1", "plugin.library.paths": "x"}},
            "plugin.library.paths: is not supported; there are bootstrap.servers",
        ),
        (
            {"ioConfig__consumerProperties": {"bootstrap.servers": "a:1", "ssl.truststore.location": "x"}},
            "ssl.truststore.location: is not supported; give the certificates as ssl.ca.location",
        ),
        (
            {"ioConfig__consumerProperties": {"bootstrap.servers": "a:1", "sasl.jaas.config": "Krb5"}},
            "sasl.jaas.config: is read for PlainLoginModule",
        ),
        ({"ioConfig__taskCount": 0}, "spec.ioConfig.taskCount: must be a whole number from 1 to"),
        ({"ioConfig__taskDuration": "1h"}, "taskDuration: '1h' is not an ISO 8601 period"),
        ({"ioConfig__taskDuration": "PT0.1S"}, "taskDuration: must be at least 1000 ms"),
        ({"ioConfig__useEarliestOffset": "yes"}, "useEarliestOffset: must be true or false"),
        ({"ioConfig__autoScalerConfig": {"a": 1}}, "autoScalerConfig: is not supported; give task"),
        ({"ioConfig__topik": "a"}, "spec.ioConfig.topik: unknown field; did you mean 'topic'"),
        ({"tuningConfig__foo": 1}, "spec.tuningConfig.foo: unknown field"),
        ({"tuningConfig__intermediateHandoffPeriod": "PT0.01S"}, "must be at least 100 ms"),
        ({"id": "a/b"}, "id: must not hold '/'"),
        ({"context": {"retries": "many"}}, "context: 'retries' of a task's context is 'many'"),
        ({"context": {"sparkConf": "x"}}, "context: 'sparkConf' of a task's context must be an"),
        ({"context": {"sparkBacklog": "1"}}, "context.sparkBacklog: must be a whole number of mess"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid) as found:
        load_supervisor(changed(**fields))
    assert said in found.value.message


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Invalid, match=r"2 problems: .*taskCount.*dataSchema\.foo"):
        load_supervisor(changed(ioConfig__taskCount="x", dataSchema__foo=1))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("kinesis", "there are no kinesis supervisors here"),
        ("autocompact", "carnac compaction set keeps a datasource compacted"),
        ("kafla", "'kafla' is no type of a supervisor; there is kafka"),
        (None, "type: is required: kafka"),
    ],
)
def test_other_supervisors_are_refused_by_name(kind: object, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        load_supervisor({"type": kind})


def test_a_task_holds_the_spec_of_its_supervisor() -> None:
    task = load_task({"type": "index_kafka", "supervisor": SPEC, "group": 1})
    assert isinstance(task, KafkaTask)
    assert (task.datasource, task.is_append, task.stream.tasks) == ("metrics-kafka", True, 2)
    with pytest.raises(Invalid, match="group 2 is none of the 2 tasks"):
        load_task({"type": "index_kafka", "supervisor": SPEC, "group": 2})
    with pytest.raises(Invalid, match="a supervisor submits them"):
        load_task({"type": "index_kafka", "spec": SPEC["spec"]})
