"""Objects that are closed at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """An object that a `with` block binds, and that is closed when the block ends, however it ends."""

    @abstractmethod
    def close(self) -> None:
        """Release what it holds. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
