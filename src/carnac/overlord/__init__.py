"""The overlord: which task may work on what, when, and which one is next. Decided by `core.locks` and `core.tasks`.

How does a task go on when its process dies? An attempt gives signs of life while it runs (`attempt`). In every round
the leading overlord (`loop`) first ends the attempts whose process their runner knows to be gone, then those whose last
sign of life is older than their lease. Such an attempt is lost, and so are its locks: a publish checks them in its own
transaction, so a process that lives on somewhere publishes nothing. `clearing` removes the files and folders that it
left. The task waits, twice as long each time, and is tried again as often as its retry policy allows. A batch that an
earlier attempt has published is found, not done again. If the overlord itself dies, another one, or the same one
started again, goes on where it was, since all of this is rows of the metadata store.

`tasks` is the service, `lockbox` and `keeper` hold the locks, `guard` asks for them as writes need them,
`runners` start processes, `compactor` keeps datasources compacted.
"""

from carnac.overlord.keeper import LockKeeper
from carnac.overlord.lockbox import Lockbox
from carnac.overlord.tasks import TaskService

__all__ = ["LockKeeper", "Lockbox", "TaskService"]
