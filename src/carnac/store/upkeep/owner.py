"""The owner of a deep storage: a file in it names the one store whose segments lie there.

To each of two stores in one deep storage the files of the other would be garbage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.redaction import show_url
from carnac.errors import Invalid
from carnac.ports.storage import OWNER_FILE

if TYPE_CHECKING:
    from carnac.ports import DeepStorage


def take_ownership(deep_storage: DeepStorage, store_id: str) -> None:
    """Write down that a deep storage is a new store's, which shows at once whether it can be written.

    Raises:
        Invalid: It is another store's.
    """
    if require_own(deep_storage, store_id) is None:
        deep_storage.write(OWNER_FILE, store_id.encode())


def require_own(deep_storage: DeepStorage, store_id: str) -> str | None:
    """Return the id of the store that owns a deep storage; None: no store does.

    Raises:
        Invalid: It is another store.
    """
    if deep_storage.find_file(OWNER_FILE) is None:
        return None
    with deep_storage.open_read(OWNER_FILE) as file:
        owner = file.read().decode(errors="replace")
    if owner != store_id:
        raise Invalid(
            f"deep storage {show_url(deep_storage.url)} belongs to store {owner}, and this is store {store_id}: give "
            f"each store one of its own (--deep-storage), or delete its file {OWNER_FILE} if that store is gone",
            store_id=owner,
        )
    return owner
