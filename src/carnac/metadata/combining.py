"""Groups of jobs in one transaction, those of other processes included: one sync of the disk for all of them.

Who finds the writers' lock taken asks its holder to publish for him, and waits for the answer instead of the lock. The
holder publishes for itself and for all who asked, then lets the oldest of those who asked meanwhile go on. An answer
comes after the commit. Who gets none in time takes the lock and looks whether its commit is there.

Source: Hendler, Incze, Shavit and Tzafrir, "Flat combining and the synchronization-parallelism tradeoff" (SPAA 2010),
with requests that survive the death of either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from carnac.errors import CarnacError
from carnac.metadata.database import Database, translated
from carnac.metadata.group_commit import GROUP_LIMIT, Job
from carnac.metadata.mailboxes import Mailboxes, Request, Ring
from carnac.metadata.session import Session
from carnac.metadata.texts import statements as s

if TYPE_CHECKING:
    from carnac.metadata.append_requests import Append

LISTEN_MS = 20
"""How long who waits for an answer does not look whether the lock is free: its holder may have died."""
GROUPS_FOR_OTHERS = 4
"""Groups that the holder of the lock does for others after its own: passing the lock on costs more than a group."""
ANSWER_PATIENCE_MS = 1000
"""How long to wait for an answer before standing in the queue for the lock: its holder is at something long."""


class GroupCommit:
    """Runs groups of jobs of one store. For one thread at a time.

    Args:
        now_ms: The time at which other processes' appends are published.
    """

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms
        self._newest = 0  # revision that this process has met

    @cached_property
    def _origin_ms(self) -> int:
        """When the store was made: who still has an older one of the same file open has nothing to ask us."""
        with translated(self._database), self._database.read() as session:
            row = session.row(s.ORIGIN)
        return 0 if row is None else int(row[0])

    def run(self, jobs: Sequence[Job]) -> None:
        """Do the jobs, or have them done; set `result` or `error` of each."""
        mailboxes = self._database.mailboxes
        if mailboxes is None:
            self._commit([jobs])
            return
        try:
            if not self._hand_over(mailboxes, jobs):
                self._lead(mailboxes, jobs)
        except BaseException as error:
            self._database.leave()
            for job in jobs:
                job.error = error
        published = (job.result.revision for job in jobs if job.append and job.result)
        self._newest = max(self._newest, *published, 0)

    def _hand_over(self, mailboxes: Mailboxes, jobs: Sequence[Job]) -> bool:
        """Whether another process has done the jobs; else we may hold the lock already."""
        appends = [job.append for job in jobs if job.append is not None]
        if len(appends) < len(jobs) or self._database.try_enter():
            return False
        from carnac.metadata.append_requests import Since, dump_requests, load_answers

        since = Since(self._newest, self._now_ms())
        if not mailboxes.post(dump_requests(self._origin_ms, appends)):
            return False
        try:
            what, text = self._listen(mailboxes)
        finally:
            mailboxes.withdraw()
        if what is Ring.ANSWERED:
            for job, published in zip(jobs, load_answers(text, appends), strict=True):
                job.result = published
            return True
        for job in jobs:
            job.since = since
        return False

    def _listen(self, mailboxes: Mailboxes) -> tuple[Ring, bytes]:
        """Wait until somebody answers, or the lock is ours, or it takes too long."""
        for _ in range(ANSWER_PATIENCE_MS // LISTEN_MS):
            if self._database.try_enter():
                break
            heard = mailboxes.wait(LISTEN_MS)
            if heard is not None and heard[0] is not Ring.LOOK:
                return heard
        return Ring.BY_YOURSELF, b""

    def _lead(self, mailboxes: Mailboxes, jobs: Sequence[Job]) -> None:
        """Do our jobs, and those of processes that asked for it."""
        with translated(self._database), self._database.turn():
            self._lead_group(mailboxes, jobs)
            for _ in range(GROUPS_FOR_OTHERS):
                if not mailboxes.has_requests():
                    break
                self._lead_group(mailboxes, ())
        if mailboxes.has_requests():  # perhaps of one that came after we had looked
            mailboxes.wake_one()

    def _lead_group(self, mailboxes: Mailboxes, jobs: Sequence[Job]) -> None:
        if jobs and not any(job.is_durable for job in jobs):
            self._commit([jobs], is_durable=False)  # others' appends must be
            return
        guests: list[_Guest] = []
        try:
            self._commit(self._gather(mailboxes, jobs, guests))
        finally:
            for guest in guests:
                mailboxes.ring(guest.request, *guest.outcome())

    def _gather(
        self, mailboxes: Mailboxes, jobs: Sequence[Job], guests: list[_Guest]
    ) -> Iterator[Sequence[Job]]:
        """Yield our jobs, and those of others that come until they are done."""
        yield jobs
        count = len(jobs)
        while requests := mailboxes.collect(GROUP_LIMIT - count):
            come = [_Guest(request, self._jobs_of(request)) for request in requests]
            guests.extend(come)
            found = [job for guest in come for job in guest.jobs]
            yield found
            count += len(found)

    def _jobs_of(self, request: Request) -> list[Job]:
        from carnac.metadata.append_requests import load_requests

        try:
            appends = load_requests(request.text, self._origin_ms)
        # its sender finds out what it means
        except (ValueError, TypeError, StopIteration, CarnacError):
            return []
        return [Job(self._publishing(append), append) for append in appends]

    def _publishing(self, append: Append) -> Callable[[Session], object]:
        from carnac.metadata.writer import write_publication

        return lambda session: write_publication(
            session, append.publication, append.encoded, self._now_ms()
        )

    def _commit(self, groups: Iterable[Sequence[Job]], *, is_durable: bool = True) -> None:
        """Run the jobs in one transaction; if that breaks before its commit, each in one of its own."""
        coming, begun = iter(groups), list[Job]()
        is_committing = False
        try:
            with translated(self._database), self._database.write(is_durable=is_durable) as writing:
                for jobs in coming:
                    begun.extend(jobs)
                    _run_jobs(jobs, writing.session)
                if writing.session.writes:
                    writing.session.flush()
                    is_committing = True
                    writing.commit()
        except BaseException as error:
            begun.extend(job for jobs in coming for job in jobs)
            if len(begun) == 1 or is_committing or not isinstance(error, Exception):
                for job in begun:
                    job.error = error
            else:
                for job in begun:
                    self._commit([[job]])


class _Guest(NamedTuple):
    """What another process asked for."""

    request: Request
    jobs: Sequence[Job]

    def outcome(self) -> tuple[Ring, bytes]:
        """Return what to tell it; errors it meets by itself."""
        if not self.jobs or any(job.error is not None or job.result is None for job in self.jobs):
            return Ring.BY_YOURSELF, b""
        from carnac.metadata.append_requests import dump_answers

        return Ring.ANSWERED, dump_answers([job.result for job in self.jobs])


def _run_jobs(jobs: Sequence[Job], session: Session) -> None:
    if len(jobs) > 1:
        from carnac.metadata.writer import look_ahead

        look_ahead(session, [job.append.publication for job in jobs if job.append is not None])
    for job in jobs:
        _run_job(job, session)


def _run_job(job: Job, session: Session) -> None:
    writes = session.writes
    job.error = None
    try:
        found = None
        if job.since is not None and job.append is not None:
            found = job.append.find(session, job.since)
        job.result = job.work(session) if found is None else found
    except CarnacError as error:
        if session.writes != writes:
            raise
        job.error = error
