"""Historicals: segments on the disk of a server, and the leaf statements that run over them.

What does a historical hold? The segments that a coordinator assigned to it: `loading` fetches their files in the
order of assignment and checks each against its record, `shelf` knows which are there and who reads them.

What does a restart find again? The `journal` in its folder has every assignment and every file that was checked, each
synced before it was acknowledged; `presence` then makes the server known again, under the id that the folder keeps.

How does a cold segment answer? A leaf statement (`leaves`) may name any segment of the log; of one that is not on the
shelf, `cold` reads from deep storage the blocks that the scan needs, each with a checksum of its own.
"""

from carnac.historical.server import Historical

__all__ = ["Historical"]
