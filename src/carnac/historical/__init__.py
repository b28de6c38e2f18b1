"""Historicals: segments on the disk of a server, and the leaf statements that run over them."""

from carnac.historical.server import Historical

__all__ = ["Historical"]
