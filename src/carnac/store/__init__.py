"""The store service: writing, reading, history and maintenance, joined from the ports."""

from carnac.store.store import Store

__all__ = ["Store"]
