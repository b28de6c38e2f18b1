"""The overlord: which task may work on what, when, and which one is next. Decided by `core.locks` and `core.tasks`.

What happens when the process of a task dies? An attempt gives signs of life while it runs (`attempt`). In every round
the leading overlord (`loop`) ends the attempts whose process their runner knows to be gone, and those whose last sign
of life is older than their lease. Such an attempt is lost. The same transaction frees its locks and reserved places, so
a process that is only slow publishes nothing later. A process that still runs on this machine is stopped, then
`clearing` deletes the files of the attempt that no commit names. The task pauses and is tried again. When its retry
policy is used up, it fails. A batch that an earlier attempt has published is found, not done again, and a late report
of success counts as long as no newer attempt exists. All of this is rows of the metadata store, so another overlord can
go on.

`tasks` is the service, `lockbox` and `keeper` hold the locks, `guard` asks for them as writes need them, `runners`
start processes, `compactor` keeps datasources compacted, `supervisors` have streams read.
"""

from carnac.overlord.keeper import LockKeeper
from carnac.overlord.lockbox import Lockbox
from carnac.overlord.tasks import TaskService

__all__ = ["LockKeeper", "Lockbox", "TaskService"]
