"""The overlord: who may work on what, when, and what is done next. What it decides is `core.locks` and `core.tasks`."""

from carnac.overlord.keeper import LockKeeper
from carnac.overlord.lockbox import Lockbox
from carnac.overlord.tasks import TaskService

__all__ = ["LockKeeper", "Lockbox", "TaskService"]
