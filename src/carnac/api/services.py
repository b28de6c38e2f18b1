"""The services behind the HTTP API of an overlord."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.api.admission import Admission

if TYPE_CHECKING:
    from carnac.overlord import Lockbox, TaskService
    from carnac.overlord.loop import OverlordLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a request may ask: tasks, locks, who leads, and what is let in."""

    tasks: TaskService
    locks: Lockbox
    loop: OverlordLoop
    admission: Admission
