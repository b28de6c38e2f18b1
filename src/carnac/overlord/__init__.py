"""The overlord: who may work on what, when. Locks are here; what they decide is `carnac.core.locks`."""

from carnac.overlord.keeper import LockKeeper
from carnac.overlord.lockbox import Lockbox

__all__ = ["LockKeeper", "Lockbox"]
