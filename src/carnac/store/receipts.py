"""Receipts: made of an answer, and derived again from the log, years later and on another engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, cast

import msgspec

from carnac.core.answers.receipts import segments_digest, statement_digest
from carnac.core.json_text import parse_json
from carnac.errors import Invalid
from carnac.ports.answers import Receipt
from carnac.ports.queries import READ_ALL
from carnac.store.querying import Reads, RevisionCatalog

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports.queries import QueryBasis
    from carnac.query.streams.streaming import StreamedQuery

Parameters = Sequence[object] | Mapping[str, object]

FIELDS = ("store_id", "revision", "statement_digest", "segments_digest", "rows", "rows_digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """The result of deriving a receipt again.

    Attributes:
        receipt: Receipt as it was given.
        derived: Receipt that the log gives now.
        findings: Differences, a sentence each; none: the receipt holds.
        notes: Parts that could not be compared, and why, a sentence each.
    """

    receipt: Receipt
    derived: Receipt
    findings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_verified(self) -> bool:
        """Whether the receipt holds."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A receipt with the statement that it is of."""

    receipt: Receipt
    statement: str
    parameters: Parameters


def receipt_of(catalog: RevisionCatalog, basis: QueryBasis, parameters: Parameters) -> Receipt:
    """Return the receipt of an answer whose rows were not read yet."""
    return Receipt(
        store_id=catalog.store_id,
        revision=catalog.revision,
        statement_digest=statement_digest(basis.statement, parameters),
        segments_digest=segments_digest(basis.slices),
    )


def of_table(
    reads: Reads, text: str, *, revision: int, parameters: Parameters, table: pa.Table
) -> Receipt:
    """Return the receipt of an answer that is there: the statement is planned again, not run."""
    from carnac.rows.answer_digest import AnswerMeter

    def plan(catalog: RevisionCatalog) -> Receipt:
        query = reads.engine.open_query(text, catalog, parameters=parameters)
        try:
            return receipt_of(catalog, query.basis, parameters)
        finally:
            query.close()

    meter = AnswerMeter()
    for batch in table.to_batches():
        meter.add(batch)
    planned = reads.engine.apart(lambda: reads.run(revision, plan))
    return replace(planned, rows=meter.rows, rows_digest=meter.digest)


def derive(
    reads: Reads, text: str, *, at: int | str | None, parameters: Parameters
) -> tuple[Receipt, bool]:
    """Run a statement; return its receipt, and whether its rows depend on the time or on chance."""

    def run(catalog: RevisionCatalog) -> tuple[Receipt, bool]:
        query = reads.engine.open_query(text, catalog, parameters=parameters, keeping=READ_ALL)
        try:
            planned = receipt_of(catalog, query.basis, parameters)
            return _read(query, planned), query.basis.is_volatile
        finally:
            query.close()

    return reads.engine.apart(lambda: reads.run(at, run))


def verify(reads: Reads, asked: Asked) -> ReceiptCheck:
    """Derive a receipt again and compare.

    Raises:
        Invalid: The receipt is of another store.
        NotFound: The receipt's revision is not kept any more.
    """
    given, own = asked.receipt.store_id, reads.metadata.store_id
    if given not in {None, own}:
        raise Invalid(
            f"the receipt is of store {given}, and this is store {own}; verify it against its own store",
            store_id=given,
        )
    derived, is_volatile = derive(
        reads, asked.statement, at=asked.receipt.revision, parameters=asked.parameters
    )
    findings, notes = _compare(asked.receipt, derived, is_volatile=is_volatile)
    erased = reads.metadata.edition
    if findings and erased > asked.receipt.revision:
        notes.append(f"rows were erased from history since, the last time by commit {erased}")
    return ReceiptCheck(
        receipt=asked.receipt, derived=derived, findings=tuple(findings), notes=tuple(notes)
    )


def _read(query: StreamedQuery, planned: Receipt) -> Receipt:
    from carnac.rows.answer_digest import AnswerMeter

    meter = AnswerMeter()
    query.start()
    for batch in query.batches():
        meter.add(cast("pa.RecordBatch", batch))
    return replace(planned, rows=meter.rows, rows_digest=meter.digest)


def _compare(given: Receipt, derived: Receipt, *, is_volatile: bool) -> tuple[list[str], list[str]]:
    findings, notes = [], []
    if given.statement_digest != derived.statement_digest:
        findings.append("the statement or its parameters are not those of the receipt")
    if given.segments_digest != derived.segments_digest:
        findings.append(
            f"at revision {given.revision} the log has the statement read other segments than the receipt says"
        )
    if given.rows is None or given.rows_digest is None:
        notes.append("the receipt says nothing of the rows: the answer was not read to its end")
        return findings, notes
    if is_volatile:
        notes.append("the rows depend on the time or on chance, and are not compared")
        return findings, notes
    if given.rows != derived.rows:
        findings.append(f"the answer has {derived.rows} rows, the receipt says {given.rows}")
    form, derived_form = (
        (one or "").partition(":")[0] for one in (given.rows_digest, derived.rows_digest)
    )
    if form != derived_form:
        notes.append(
            f"the rows were digested in form {form}, this version makes form {derived_form}: they are not compared"
        )
    elif given.rows_digest != derived.rows_digest:
        findings.append(
            "the rows are not those of the receipt (a statement with LIMIT and no ORDER BY may choose others)"
        )
    return findings, notes


def dump(receipt: Receipt, statement: str, parameters: Parameters) -> str:
    """Return a receipt with its statement as JSON, for a file."""
    values = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
    content = {**asdict(receipt), "statement": statement, "parameters": values}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def load(text: str, what: str) -> Asked:
    """Return what a file of JSON says: a receipt, as HTTP gives it, with `statement`, and `parameters` if any.

    Raises:
        Invalid: The file is no receipt.
    """
    content = parse_json(text, f"receipt {what}")
    if not isinstance(content, dict):
        raise Invalid(f"{what} is no receipt: it must be a JSON object")
    inner = content.get("receipt")
    if isinstance(inner, dict):
        content = {**inner, **content}
    statement = content.get("statement")
    if not isinstance(statement, str):
        raise Invalid(
            f'{what} does not say which statement it is of; add "statement", and "parameters" if it has any'
        )
    parameters = content.get("parameters", [])
    if not isinstance(parameters, list | dict):
        raise Invalid(f"{what}: parameters must be a list, or an object by name")
    try:
        receipt = msgspec.convert({name: content.get(name) for name in FIELDS}, Receipt)
    except msgspec.ValidationError:
        raise Invalid(f"{what} is no receipt: it must say {', '.join(FIELDS[1:])}") from None
    return Asked(receipt=receipt, statement=statement, parameters=parameters)
