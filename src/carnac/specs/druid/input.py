"""Druid's input sources and input formats, the old ones (parser, firehose) too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from carnac.specs.druid.fields import IGNORED_IN_JSON, Block

_FOREIGN = "credentials and endpoints belong into Carnac's configuration"
_UNSUPPORTED_SOURCES: dict[str, str] = {
    "http": "download the files, or use s3, local or inline",
    "hdfs": "copy the files to S3 or to a local directory",
    "google": "copy the files to S3 or to a local directory",
    "azure": "copy the files to S3 or to a local directory",
    "azureStorage": "copy the files to S3 or to a local directory",
    "sql": "read the table with Spark and hand over the DataFrame",
    "druid": "write REPLACE INTO … SELECT … FROM the datasource, which carnac ingest and /druid/v2/sql/task take",
    "delta": "read the table with Spark and hand over the DataFrame",
    "iceberg": "read the table with Spark and hand over the DataFrame",
}
_UNSUPPORTED_FORMATS: dict[str, str] = dict.fromkeys(
    ("avro_ocf", "avro_stream", "protobuf", "thrift", "regex", "javascript", "kafka", "kinesis"),
    "read the files with Spark and hand over the DataFrame",
)
_FILES = frozenset(("local", "s3"))


def modernise(schema: Block, io: Block) -> tuple[Block, Block]:
    """Move what old specs keep in `parser` and `firehose` to where newer ones have it."""
    parser = schema.take("parser")
    if isinstance(parser, Mapping):
        parse = Block(parser, schema.at("parser"), schema.findings).take_map("parseSpec")
        for name in ("timestampSpec", "dimensionsSpec"):
            if name in parse and not schema.has(name):
                schema.put(name, parse.pop(name))
        if not io.has("inputFormat"):
            kind = parse.pop("format", "tsv")
            io.put("inputFormat", {**parse, "type": kind})
    firehose = io.take("firehose")
    if isinstance(firehose, Mapping) and not io.has("inputSource"):
        kind = str(firehose.get("type"))
        names = {"static-s3": "s3", "static-google-blobstore": "google", "ingestSegment": "druid"}
        io.put("inputSource", {**firehose, "type": names.get(kind, kind)})
    return schema, io


def convert_source(io: Block) -> dict[str, Any]:
    """Return the native input block of `inputSource`, without its format."""
    if not io.has("inputSource"):
        io.problem("inputSource", "is required")
        return {"type": "files", "paths": ["missing"]}
    source = io.block("inputSource")
    native = _convert_one(source)
    source.finish()
    return native


def _convert_one(source: Block) -> dict[str, Any]:
    kind = source.take("type")
    if kind == "combining":
        return _combine(source)
    if kind == "inline":
        return {"type": "inline", "data": source.take("data")}
    if source.take("systemFields"):
        source.problem("systemFields", "is not supported; remove it")
    if kind == "local":
        return _local(source)
    if kind == "s3":
        return _s3(source)
    hint = _UNSUPPORTED_SOURCES.get(str(kind), f"use one of {', '.join(sorted(_FILES))}, inline")
    said = "is required" if kind is None else f"input source '{kind}' is not supported"
    source.problem("type", f"{said}; {hint}")
    source.rest()
    return {"type": "files", "paths": ["unsupported"]}


def _local(source: Block) -> dict[str, Any]:
    base, pattern = source.take("baseDir"), source.take("filter")
    paths = ([base] if base else []) + source.take_list("files")
    source.take("parser")
    if not paths:
        source.problem("baseDir", "is required, or files")
        paths = ["missing"]
    native: dict[str, Any] = {"type": "files", "paths": paths}
    if pattern and base:
        native["filter"] = pattern
    return native


def _s3(source: Block) -> dict[str, Any]:
    for name in ("properties", "endpointConfig", "clientConfig", "proxyConfig"):
        if source.take(name):
            source.problem(name, f"is not supported here; {_FOREIGN}")
    paths = [str(uri) for uri in source.take_list("uris")]
    paths += [p if str(p).endswith("/") else f"{p}*" for p in source.take_list("prefixes")]
    for index, item in enumerate(source.take_list("objects")):
        place = Block(item, f"{source.path}.objects[{index}]", source.findings)
        paths.append(f"s3://{place.take('bucket')}/{place.take('path')}")
        place.finish()
    native: dict[str, Any] = {"type": "files", "paths": paths or ["missing"]}
    if not paths:
        source.problem("uris", "is required, or prefixes or objects")
    glob = source.take("objectGlob") or source.take("filter")
    if glob:
        ending = re.fullmatch(r"(?:\*\*/?)([^/]*)", str(glob))
        if ending is None:
            source.problem("objectGlob", "only globs like **.json are supported; use s3:// globs")
        else:
            native["filter"] = f"*{ending.group(1).lstrip('*')}"
    return native


def _combine(source: Block) -> dict[str, Any]:
    """Return one block for several sources of one kind."""
    parts: list[dict[str, Any]] = []
    for index, item in enumerate(source.take_list("delegates")):
        delegate = Block(item, f"{source.path}.delegates[{index}]", source.findings)
        parts.append(_convert_one(delegate))
        delegate.finish()
    kinds = {part["type"] for part in parts}
    filters = {part.get("filter") for part in parts}
    if len(kinds) != 1 or len(filters) > 1:
        source.problem(
            "delegates", "must all be files with the same filter, or all inline; ingest them apart"
        )
        return {"type": "files", "paths": ["unsupported"]}
    if kinds == {"inline"}:
        return {"type": "inline", "data": "\n".join(str(part["data"]) for part in parts)}
    paths = [path for part in parts for path in part["paths"]]
    merged: dict[str, Any] = {"type": "files", "paths": paths}
    return merged if filters == {None} else {**merged, "filter": filters.pop()}


def convert_format(io: Block) -> dict[str, Any] | None:
    """Return the native format block of `inputFormat`; None if there is a problem with it."""
    if not io.has("inputFormat"):
        io.problem("inputFormat", "is required")
        return None
    block = io.block("inputFormat")
    kind = block.take("type")
    if str(kind) in _UNSUPPORTED_FORMATS:
        block.problem(
            "type", f"format '{kind}' is not supported; {_UNSUPPORTED_FORMATS[str(kind)]}"
        )
        block.rest()
        return None
    if kind in ("jsonLowercase", "jsonLowerCase"):
        block.problem("type", "format 'jsonLowercase' is not supported; use json")
        block.rest()
        return None
    if kind == "json":
        block.ignore(IGNORED_IN_JSON)
        features = block.take_map("featureSpec")
        if any(features.values()):
            block.problem("featureSpec", "is not supported; write standard JSON")
    for name in ("tryParseNumbers", "shouldParseNumbers"):
        if block.take_flag(name):
            block.problem(name, "is not supported; give the types in dimensionsSpec")
    header = block.take_flag("hasHeaderRow")
    native = {"type": kind, **{k: v for k, v in block.rest().items() if v is not None}}
    if header is not None and "findColumnsFromHeader" not in native:
        native["findColumnsFromHeader"] = header
    if "flattenSpec" in native:
        native["flattenSpec"] = _flatten(
            Block(native["flattenSpec"], block.at("flattenSpec"), io.findings)
        )
    return native


def _flatten(block: Block) -> dict[str, Any]:
    fields: list[Any] = []
    for index, item in enumerate(block.take_list("fields")):
        if not isinstance(item, Mapping):
            fields.append(item)
            continue
        flat = dict(item)
        kind = flat.get("type")
        if kind == "jq":
            block.findings.problem(
                f"{block.path}.fields[{index}].type", "'jq' is not supported; use path"
            )
            continue
        if kind == "tree":
            nodes = flat.pop("nodes", None)
            nodes = nodes if isinstance(nodes, list) else []
            flat["type"] = "path"
            flat["expr"] = "$" + "".join(f"['{node}']" for node in nodes)
        fields.append({k: v for k, v in flat.items() if v is not None})
    return {**{k: v for k, v in block.rest().items() if v is not None}, "fields": fields}
