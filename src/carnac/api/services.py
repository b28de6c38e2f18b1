"""The services behind the HTTP API of an overlord."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.api.admission import Admission

if TYPE_CHECKING:
    from carnac.api.sql.kept import StatementRows
    from carnac.api.sql.selects import Describe
    from carnac.overlord import Lockbox, TaskService
    from carnac.overlord.compactor.service import CompactionService
    from carnac.overlord.loop import OverlordLoop
    from carnac.overlord.supervisors.service import SupervisorService


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that a request may ask: tasks, locks, leadership, compaction, supervisors, admission.

    Attributes:
        compaction_slots: How many tasks of compaction run at a time.
        kept: Rows of statements that were tasks.
        describe: Returns the columns of a SELECT before it runs.
    """

    tasks: TaskService
    locks: Lockbox
    loop: OverlordLoop
    compaction: CompactionService
    supervisors: SupervisorService
    compaction_slots: int
    admission: Admission
    kept: StatementRows
    describe: Describe
