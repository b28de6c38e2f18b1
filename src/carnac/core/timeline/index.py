"""Finding the chunks that overlap an interval, whatever their granularities, without keeping anything sorted.

Chunks are filed by length: class L holds those shorter than 2**L ms and not shorter than half of that, in cells of
2**L ms by their start. So a chunk that overlaps an interval starts in one of its cells or in the one before, filing
one more costs the same in a datasource of any size, and a datasource has as many classes as it has granularities.
"""

from __future__ import annotations

from collections.abc import Iterator

from carnac.core.timeline.stacks import Stack


class ChunkIndex:
    """Stacks by place in time."""

    __slots__ = ("_classes",)

    def __init__(self) -> None:
        self._classes: dict[int, dict[int, list[Stack]]] = {}

    def add(self, stack: Stack) -> None:
        """File a stack, which is not filed yet."""
        length = (stack.end_ms - stack.start_ms).bit_length()
        cells = self._classes.setdefault(length, {})
        cells.setdefault(stack.start_ms >> length, []).append(stack)

    def remove(self, stack: Stack) -> None:
        """Take a filed stack out."""
        length = (stack.end_ms - stack.start_ms).bit_length()
        cells = self._classes[length]
        cell = stack.start_ms >> length
        cells[cell].remove(stack)
        if not cells[cell]:
            del cells[cell]
            if not cells:
                del self._classes[length]

    def overlapping(self, start_ms: int, end_ms: int) -> Iterator[Stack]:
        """Yield the stacks whose chunks overlap `[start_ms, end_ms)`, in no order."""
        for length, cells in self._classes.items():
            first, last = (start_ms >> length) - 1, (end_ms - 1) >> length
            if last - first < len(cells):
                for cell in range(first, last + 1):
                    for stack in cells.get(cell, ()):
                        if stack.start_ms < end_ms and stack.end_ms > start_ms:
                            yield stack
            else:
                for stacks in cells.values():
                    for stack in stacks:
                        if stack.start_ms < end_ms and stack.end_ms > start_ms:
                            yield stack
