"""The queue in front of the database: jobs that come while a transaction is being made share the next one.

All writes of a process go through it: publications, allocated places, locks, tasks, leases. The queue orders the
threads of one process; `Database.write` orders processes.

Nobody starves: jobs run in the order in which they came. A thread that waits for its job runs the next transaction when
that job is the oldest, for itself and up to `GROUP_LIMIT - 1` that came after it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from carnac.errors import CarnacError, Unavailable
from carnac.metadata.database import Database, is_refusal, meaning_of
from carnac.metadata.session import Session
from carnac.unbroken import LEDGER, unbroken

if TYPE_CHECKING:
    from carnac.core.log.commits import Publication
    from carnac.metadata.publish.plain_append import PlainAppend

T = TypeVar("T")

GROUP_LIMIT = 32
"""Jobs in one transaction; bounds how long those wait that are not in it."""
GATHER_MS = 2
"""How long a group waits at most until half as many are there as in the one before: callers that were told together
come back together, and the first of them would else wait for the disk alone."""


class JointWork(NamedTuple):
    """What a job may do together with others of its transaction.

    Attributes:
        run: Does it for several arguments, as if one came after the other; returns a result for each.
        argument: That of this job.
    """

    run: Callable[[Session, Sequence[Any]], Sequence[Any]]
    argument: Any


class Job:
    """Something to do inside a write transaction.

    Attributes:
        work: Function to run. A CarnacError that it raises before its first write fails this job and no other.
        publication: Publication that `work` writes; None if it does something else.
        plain: What may write it in one statement, in place of `work`; None: nothing.
        joint: What `work` does, for jobs beside one another that do it together; None: it is done alone.
        is_durable: Whether its writes must survive a power cut.
        error: Exception that is raised in the caller; None if `result` holds the value that `work` returned.
        is_done: Whether `result` or `error` is there.
    """

    __slots__ = (
        "error",
        "is_done",
        "is_durable",
        "joint",
        "plain",
        "publication",
        "result",
        "wake",
        "work",
    )

    def __init__(
        self,
        work: Callable[[Session], Any],
        publication: Publication | None = None,
        *,
        plain: PlainAppend | None = None,
        joint: JointWork | None = None,
        is_durable: bool = True,
    ) -> None:
        self.work = work
        self.publication = publication
        self.plain = plain
        self.joint = joint
        self.is_durable = is_durable
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.wake = threading.Lock()

    def finish(self) -> None:
        """Tell the caller."""
        self.is_done = True
        if self.wake.locked():
            self.wake.release()


class CommitQueue:
    """First in, first out, across the threads of a process.

    Args:
        run_group: Runs the jobs in one transaction and sets `result` or `error` of each; never raises.
        check: Raises if nothing may be written here.
    """

    def __init__(
        self, run_group: Callable[[Sequence[Job]], None], check: Callable[[], None]
    ) -> None:
        self._run_group = run_group
        self._check = check
        self._mutex = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._has_come = threading.Condition(self._mutex)
        self._awaited = 0  # jobs; 0: they are not waited for
        self._last_count = 0
        self._leader: Job | None = None

    def submit(
        self,
        work: Callable[[Session], T],
        publication: Publication | None = None,
        *,
        plain: PlainAppend | None = None,
        joint: JointWork | None = None,
        is_durable: bool = True,
    ) -> T:
        """Run `work` in a transaction, return what it returns or raise what it raises, after the commit.

        Args:
            publication: Publication that `work` writes. The publications of a group look up together what they need to
                know.
            plain: What may write it in one statement, in place of `work`.
            joint: What `work` does, if jobs that come beside it may do it together.
            is_durable: Whether its writes must survive a power cut; else the caller need not wait for the disk.
        """
        self._check()
        job = Job(work, publication, plain=plain, joint=joint, is_durable=is_durable)
        try:
            self._wait_for(job)
        except KeyboardInterrupt as interruption:
            _tell_truth(job, interruption)
            raise
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def drain(self) -> None:
        """Return when all that was submitted before is done."""
        if self._leader is not None:
            self.submit(_nothing, is_durable=False)

    def _wait_for(self, job: Job) -> None:
        """Return when a job is done. Wherever Ctrl-C interrupts, somebody leads if jobs wait."""
        try:
            self._enter(job)
            if self._leader is not job:
                job.wake.acquire()
            if self._leader is job:
                self._lead()
        finally:
            try:
                self._leave(job)
            except BaseException:
                self._leave(job)
                raise

    def _enter(self, job: Job) -> None:
        """Put a job into the queue; its caller leads if nobody does."""
        with self._mutex:
            if self._leader is not None:
                job.wake.acquire()  # released by the thread that does the job, or that lets this one lead
            self._waiting.append(job)
            if self._leader is None:
                self._leader = job
            if len(self._waiting) == self._awaited:
                self._has_come.notify()

    def _lead(self) -> None:
        """Do the oldest jobs."""
        with self._mutex:
            self._gather()
            group = [self._waiting.popleft() for _ in range(min(GROUP_LIMIT, len(self._waiting)))]
            self._last_count = len(group)
        try:
            self._run_group(group)
        finally:
            _finish(deque(group))

    def _gather(self) -> None:
        self._awaited = self._last_count // 2
        if len(self._waiting) < self._awaited:
            self._has_come.wait_for(
                lambda: len(self._waiting) >= self._awaited, timeout=GATHER_MS / 1000
            )
        self._awaited = 0

    def _leave(self, job: Job) -> None:
        """Take back a job that nobody has begun or waits for, and let the oldest one lead. Idempotent."""
        if job.is_done and self._leader is not job:
            return
        with self._mutex:
            if not job.is_done and job in self._waiting:
                self._waiting.remove(job)
            if self._leader is job:
                oldest = self._waiting[0] if self._waiting else None
                self._leader = oldest  # no handler runs between this and the call
                if oldest is not None:
                    oldest.wake.release()


def _tell_truth(job: Job, interruption: KeyboardInterrupt) -> None:
    """Say in the traceback of an interruption what became of a publication, if that is known."""
    if job.publication is not None and job.is_done and job.error is None:
        interruption.add_note(
            f"revision {job.result.revision} was published before the interruption"
        )


def _nothing(_session: Session) -> None:
    """Do nothing."""


def _finish(jobs: deque[Job]) -> None:
    """Tell the callers of all jobs, though Ctrl-C interrupts."""
    try:
        while jobs:
            jobs.popleft().finish()
    finally:
        if jobs:
            _finish(jobs)


def commit_group(database: Database, jobs: Sequence[Job]) -> None:
    """Run the jobs in one transaction, and set `result` or `error` of each; raises nothing but what a signal does.

    If the transaction breaks before its commit, each job gets one of its own. A signal is raised in the end, when it is
    known what became of it.
    """
    with unbroken() as from_here:
        _commit_group(database, jobs, from_here)


def _commit_group(database: Database, jobs: Sequence[Job], from_here: Callable[[], None]) -> None:
    is_committing = is_committed = False
    is_durable = any(job.is_durable for job in jobs)
    answers: Sequence[Any] = ()
    left: Sequence[Job] = ()
    try:
        with database.write(is_durable=is_durable) as session:
            from_here()
            if jobs[0].plain is not None:
                answers = _ask(jobs, session)
            if not answers:
                _run_jobs(jobs, session)
            if session.writes:
                session.flush()
                is_committing = True
                session.commit()
        is_committed = is_committing  # not before the block ends: PostgreSQL answers what is in its pipeline by then
        if answers:
            left = _take(jobs, answers)
    except BaseException as raised:
        is_committing = is_committing and not is_refusal(raised)
        error = meaning_of(database, raised) if isinstance(raised, Exception) else raised
        if len(jobs) == 1 or is_committing or not isinstance(error, Exception):
            for job in jobs:
                job.error = _in_doubt(job, error) if is_committing else error
        else:
            for job in jobs:
                commit_group(database, [job])
    finally:
        if is_committing and any(job.publication is not None for job in jobs):
            _write_down(jobs, is_committed=is_committed)
    if left:
        _commit_group(database, left, from_here)


def _ask(jobs: Sequence[Job], session: Session) -> Sequence[Any]:
    """Have each job written by its statement; returns their cursors, or nothing if there is a job without one.

    Each names the segment of the one before, so no two may be of the same segment.
    """
    found = {job.plain.segment_id: job.plain for job in jobs if job.plain is not None}
    if len(found) < len(jobs):
        return ()
    return [
        found[key].send(session, after) for key, after in zip(found, [None, *found], strict=False)
    ]


def _take(jobs: Sequence[Job], answers: Sequence[Any]) -> Sequence[Job]:
    """Set the results of the jobs whose statement has written something; return those that are to be done as others."""
    left = []
    for job, answer in zip(jobs, answers, strict=True):
        plain, job.plain = job.plain, None
        row = answer.fetchone()
        if row is None or plain is None:
            left.append(job)
        else:
            job.error, job.result = None, plain.published(row)
    return left


def _in_doubt(job: Job, error: BaseException) -> BaseException:
    """Return the error of a commit that was not acknowledged; that of a publication says what to do before a retry."""
    publication = job.publication
    if publication is None or type(error) is not Unavailable:
        return error
    if publication.batch is not None:
        advice = (
            f"retry under the same writer and batch ({publication.writer}, {publication.batch})"
        )
    elif publication.writer is not None:
        advice = f"retry with the same offset range of writer {publication.writer}"
    else:
        advice = "carnac log says which; retry only if it is not"
    doubted = Unavailable(
        f"{error.message}; the commit may be published or not: {advice}", **error.ids
    )
    doubted.__cause__ = error
    return doubted


def _write_down(jobs: Sequence[Job], *, is_committed: bool) -> None:
    """Let the process know what it has published."""
    if not is_committed:
        LEDGER.is_unclear = True
        return
    for job in jobs:
        if job.publication is not None and job.result is not None and not job.result.is_replay:
            LEDGER.revisions.append(job.result.revision)


def _run_jobs(jobs: Sequence[Job], session: Session) -> None:
    if len(jobs) == 1:
        _run_job(jobs[0], session)
        return
    publications = [job.publication for job in jobs if job.publication is not None]
    if len(publications) > 1:
        from carnac.metadata.publish.writer import look_ahead

        look_ahead(session, publications)
    for run, alike in groupby(jobs, lambda job: job.joint and job.joint.run):
        group = [*alike]
        if run is not None and len(group) > 1:
            _run_together(run, group, session)
        else:
            for job in group:
                _run_job(job, session)


def _run_together(
    run: Callable[[Session, Sequence[Any]], Sequence[Any]], jobs: Sequence[Job], session: Session
) -> None:
    """Do the joint work of the jobs at once; each for itself if that fails before its first write."""
    writes = session.writes
    try:
        results = run(session, [job.joint.argument for job in jobs if job.joint is not None])
    except CarnacError:
        if session.writes != writes:
            raise
        for job in jobs:
            _run_job(job, session)
        return
    for job, result in zip(jobs, results, strict=True):
        job.error, job.result = None, result


def _run_job(job: Job, session: Session) -> None:
    writes = session.writes
    job.error = None
    try:
        job.result = job.work(session)
    except CarnacError as error:
        if session.writes != writes:
            raise
        job.error = error
