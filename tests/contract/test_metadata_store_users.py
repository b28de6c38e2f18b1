"""Who may ask, as a metadata store keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.access import DatasourcePatterns, Permission, User
from carnac.errors import NotFound
from tests.contract.conftest import Store

ANA = User(name="ana", permission=Permission.READ, password="scrypt$1$1$1$00$00", created_at_ms=5)


def test_a_new_store_has_no_users_and_no_key(store: Store) -> None:
    found = store.accounts()
    assert (dict(found.users), found.key) == ({}, b"")


def test_the_first_key_stays(store: Store) -> None:
    store.keep_access_key(b"one")
    store.keep_access_key(b"two")
    assert store.accounts().key == b"one"


def test_users_are_kept_changed_and_removed(store: Store) -> None:
    bo = User(name="bo", permission=Permission.ADMIN, password="x", created_at_ms=7)
    store.put_user(bo)
    store.put_user(ANA)
    assert list(store.accounts().users.values()) == [ANA, bo]
    changed = User(name="bo", permission=Permission.WRITE, password="y", created_at_ms=99)
    store.put_user(changed)
    kept = store.accounts().users["bo"]
    assert (kept.permission, kept.password, kept.created_at_ms) == (Permission.WRITE, "y", 7)
    limited = replace(ANA, datasources=DatasourcePatterns(("größe_*", "a'b", '"')))
    store.put_user(limited)
    assert store.accounts().users["ana"] == limited
    store.remove_user("bo")
    assert list(store.accounts().users) == ["ana"]
    with pytest.raises(NotFound, match="there is no user 'bo'"):
        store.remove_user("bo")
