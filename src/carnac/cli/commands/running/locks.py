"""`locks` and `locks break`: which task holds what, since when, and which waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import RUN, add_group, command
from carnac.cli.completion.values import complete_datasource
from carnac.cli.options import argument, option
from carnac.cli.session import Session
from carnac.cli.tables import columns_of, counted, format_age, interval_text
from carnac.core.json_form import to_json

if TYPE_CHECKING:
    from carnac.core.locks.model import Lock
    from carnac.core.locks.waits import LockPicture

add_group("locks", None, panel=RUN)

_COLUMNS = columns_of(
    "lock# | task | type! | datasource | interval | partitions | state! | priority# | age# | "
    "heartbeat# | waiters | waits for | holder"
)


@command("locks", panel=RUN, examples=["carnac locks", "carnac locks --json"])
def locks(
    session: Session,
    datasource: Annotated[
        str | None,
        option(
            "--datasource NAME", "Only the locks of this datasource.", complete=complete_datasource
        ),
    ] = None,
) -> None:
    """Show held and requested locks: owner, type, coverage, age, last sign of life, waiters.

    Partitions are all (a time chunk lock), new (future segments), or the partition ids of segments. A waiting request
    lists the locks it waits for. A lock whose state is overdue is free: the next request gets it.
    """
    from carnac.bootstrap.store import open_lockbox

    with open_lockbox(session.settings, clock=session.clock) as lockbox:
        if datasource is not None:
            lockbox.check_datasource(datasource)
        pictures = lockbox.explain(datasource)
        now_ms = (
            session.clock.now_ms()
        )  # of the database's server, which is asked while the store is open
    if session.output.is_json:
        session.output.json({"locks": [_as_json(one, now_ms) for one in pictures]})
        return
    if not pictures:
        session.output.line("no locks")
        return
    session.output.table(_COLUMNS, [_row(one, now_ms) for one in pictures])
    waiting = sum(1 for one in pictures if one.waits_for)
    session.output.note(f"{counted(len(pictures), 'lock')}, {waiting} of them waiting")


@command("locks break", panel=RUN, examples=["carnac locks break 17"])
def break_lock(
    session: Session,
    lock_id: Annotated[int, argument("LOCK", "The lock's number, as listed.")],
) -> None:
    """Take a lock, or a place in the queue, from its task; the next waiting request gets it.

    This is always safe: later publishes of the task under the lock are refused, however late it wakes.
    """
    from carnac.bootstrap.store import open_lockbox
    from carnac.core.locks.model import describe_end

    with open_lockbox(session.settings, clock=session.clock) as lockbox:
        lock = lockbox.break_lock(lock_id)
    session.output.answer(
        {"lock": _lock_json(lock)},
        f"lock {lock.lock_id} of {lock.task_id} on {lock.datasource} {interval_text(lock.interval)} "
        f"{describe_end(lock)}",
    )


def _row(one: LockPicture, now_ms: int) -> list[str]:
    lock = one.lock
    return [
        str(lock.lock_id),
        lock.task_id,
        str(lock.type),
        lock.datasource,
        interval_text(lock.interval),
        _partitions(lock),
        _state(lock, now_ms),
        str(lock.priority),
        format_age(now_ms - lock.requested_at_ms),
        format_age(now_ms - lock.heartbeat_at_ms),
        ", ".join(f"{waiter.task_id} ({waiter.lock_id})" for waiter in one.waiters),
        ", ".join(f"{blocker.task_id} ({blocker.lock_id})" for blocker in one.waits_for),
        lock.holder,
    ]


def _partitions(lock: Lock) -> str:
    if lock.partitions is None:
        return "all"
    return str(lock.partitions) or "new"


def _state(lock: Lock, now_ms: int) -> str:
    """Return the state in one word; why it was revoked, if it was."""
    from carnac.core.locks.model import is_due

    if lock.revocation is not None:
        return str(lock.revocation.reason).replace("_", " ")
    if is_due(lock, now_ms):
        return "overdue"
    return "publishing" if lock.is_publishing else str(lock.state)


def _lock_json(lock: Lock) -> dict[str, object]:
    value = to_json(lock)
    if not isinstance(value, dict):
        raise TypeError("a lock is an object")
    return {**value, "granularity": str(lock.granularity)}


def _as_json(one: LockPicture, now_ms: int) -> dict[str, object]:
    return {
        **_lock_json(one.lock),
        "age_ms": now_ms - one.lock.requested_at_ms,
        "heartbeat_age_ms": now_ms - one.lock.heartbeat_at_ms,
        "waiters": [_named(lock) for lock in one.waiters],
        "waits_for": [_named(lock) for lock in one.waits_for],
    }


def _named(lock: Lock) -> dict[str, object]:
    return {"lock_id": lock.lock_id, "task_id": lock.task_id, "state": str(lock.state)}
