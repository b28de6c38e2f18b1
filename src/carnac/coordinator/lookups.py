"""Lookups as clients of a coordinator see and set them: each is what the last commit has made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

SetLookups = Callable[[Mapping[str, Mapping[str, str] | None], str], object]
"""Publishes mappings by name, None for a removal, with a message."""


class Lookups:
    """The lookups of a store.

    Args:
        publish: Makes a commit of a change.
    """

    def __init__(self, metadata: MetadataStore, publish: SetLookups) -> None:
        self._metadata = metadata
        self._publish = publish

    def all(self) -> Mapping[str, tuple[int, Mapping[str, str]]]:
        """Return the revision that set a lookup, and its mapping, by name."""
        return self._metadata.lookups_with_revisions()

    def get(self, name: str) -> tuple[int, Mapping[str, str]]:
        """Return the revision that set a lookup, and its mapping.

        Raises:
            NotFound: There is none of that name.
        """
        found = self.all().get(name)
        if found is None:
            raise NotFound(f"there is no lookup '{name}'", lookup=name)
        return found

    def put(self, mappings: Mapping[str, Mapping[str, str]], message: str) -> None:
        """Set lookups in one commit; those that have their mapping stay as they are.

        Raises:
            Invalid: A name, a key or a value is no text that a lookup may have.
        """
        known = self.all()
        changed = {
            name: mapping
            for name, mapping in mappings.items()
            if name not in known or known[name][1] != mapping
        }
        if changed:
            self._publish(changed, message)

    def remove(self, name: str, message: str) -> None:
        """Remove a lookup.

        Raises:
            NotFound: There is none of that name.
        """
        self._publish({name: None}, message)
