"""Passwords and tokens, headers, and what each request needs."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.access import (
    ALL_DATASOURCES,
    NO_DATASOURCES,
    PATTERNS_MAX,
    Credentials,
    Permission,
    User,
    hash_password,
    is_password,
    is_server_token,
    is_token_of,
    needed_permission,
    read_authorization,
    read_patterns,
    server_token,
    shows_others,
    token_of,
)
from carnac.errors import Invalid

KEY = bytes(range(32))
SALT = bytes(16)
ANA = User(name="ana", permission=Permission.READ, password=hash_password("a password", SALT))


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


def test_a_password_is_kept_as_a_hash_that_only_it_has() -> None:
    assert is_password("a password", ANA.password)
    assert not is_password("a passwore", ANA.password)
    assert not is_password("", ANA.password)
    assert "password" not in ANA.password
    assert "scrypt" not in repr(ANA)
    assert hash_password("a password", bytes(15) + b"1") != ANA.password


def test_a_token_holds_until_the_password_changes_and_for_nobody_else() -> None:
    said = read_authorization(f"Bearer {token_of(ANA, KEY)}")
    assert said is not None
    assert (said.name, said.is_token) == ("ana", True)
    assert is_token_of(ANA, said.secret, KEY)
    changed = User(name="ana", permission=ANA.permission, password=hash_password("another", SALT))
    other = User(name="anna", permission=ANA.permission, password=ANA.password)
    assert not is_token_of(changed, said.secret, KEY)
    assert not is_token_of(other, said.secret, KEY)
    assert not is_token_of(ANA, said.secret, KEY[::-1])
    assert not is_server_token(said.secret, KEY)


def test_processes_of_a_cluster_know_one_another_by_the_key() -> None:
    assert is_server_token(server_token(KEY), KEY)
    assert not is_server_token(server_token(KEY), KEY[::-1])
    assert not is_server_token("", KEY)
    assert not is_server_token(server_token(b""), b"")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (basic(b"ana:a:b"), Credentials("ana", "a:b")),
        (
            basic(b"ana:").lower().replace("basic yw5hog==", "bAsIc YW5hOg=="),
            Credentials("ana", ""),
        ),
        (basic("zoë:ü".encode()), Credentials("zoë", "ü")),
        (basic(b"ana"), None),
        (basic("zoë:ü".encode("latin-1")), Credentials("zoë", "ü")),
        ("Basic !!!!", None),
        ("Basic", None),
        ("", None),
        ("Digest a=b", None),
        ("Bearer carnac", Credentials(None, "", is_token=True)),
    ],
)
def test_a_header_says_who_asks(header: str, said: Credentials | None) -> None:
    found = read_authorization(header)
    if said is None or not said.is_token:
        assert found == said
    else:
        assert found is not None
        assert found.is_token


@given(st.text(max_size=60))
def test_any_header_is_read_or_not(header: str) -> None:
    for kind in ("Basic ", "Bearer ", ""):
        said = read_authorization(kind + header)
        assert said is None or isinstance(said.secret, str)


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/status/health", None),
        ("GET", "/status", Permission.READ),
        ("GET", "/metrics", Permission.READ),
        ("POST", "/druid/v2", Permission.READ),
        ("POST", "/druid/v2/sql/", Permission.READ),
        ("POST", "/druid/v2/sql/avatica", Permission.READ),
        ("DELETE", "/druid/v2/sql/some-id", Permission.READ),
        ("POST", "/druid/v2/sql/statements", Permission.READ),
        ("POST", "/druid/v2/sql/task", Permission.WRITE),
        ("POST", "/druid/v2/sql/task/", Permission.WRITE),
        ("POST", "/druid/indexer/v1/task", Permission.WRITE),
        ("POST", "/druid/indexer/v1/task/a/shutdown", Permission.WRITE),
        ("POST", "/druid/indexer/v1/taskStatus", Permission.READ),
        ("POST", "/druid/indexer/v1/supervisor/a/suspend", Permission.WRITE),
        ("DELETE", "/druid/coordinator/v1/datasources/e", Permission.WRITE),
        ("POST", "/druid/coordinator/v1/rules/e", Permission.ADMIN),
        ("POST", "/druid/coordinator/v1/config", Permission.ADMIN),
        ("POST", "/proxy/coordinator/druid/coordinator/v1/config", Permission.ADMIN),
        ("POST", "/proxy/overlord/druid/indexer/v1/task", Permission.WRITE),
        ("GET", "/proxy/overlord/status", Permission.READ),
        ("POST", "/druid/v2x", Permission.ADMIN),
        ("PATCH", "/not/there/yet", Permission.ADMIN),
    ],
)
def test_what_a_request_needs(method: str, path: str, needed: Permission | None) -> None:
    assert needed_permission(method, path) == needed


@given(st.text("ab*.[]?+", max_size=6), st.text("ab*.[]?+", max_size=6), st.text("ab.", max_size=3))
def test_a_star_stands_for_any_characters_and_all_else_for_itself(
    before: str, after: str, between: str
) -> None:
    plain = before.replace("*", ""), after.replace("*", "")
    for text in (f"{plain[0]}*{plain[1]}", f"{plain[0]}x*y{plain[1]}"):
        assert read_patterns([text]).matches(text)
    found = read_patterns([f"{plain[0]}x*y{plain[1]}"])
    assert found.matches(f"{plain[0]}x{between}y{plain[1]}")
    assert not found.matches(f"{plain[0]}z{between}y{plain[1]}")
    assert not found.matches(f"{plain[0]}x{between}y{plain[1]}z")


def test_patterns_that_match_everything_are_all_datasources() -> None:
    assert read_patterns(["a", "*", "b*"]) == ALL_DATASOURCES
    assert ALL_DATASOURCES.match_all
    assert ALL_DATASOURCES.matching(["b", "a"]) == ["b", "a"]
    assert read_patterns(["a*", "c", "c"]).matching(["ab", "b", "c", "C"]) == ["ab", "c"]
    assert NO_DATASOURCES.matching(["a"]) == []
    assert str(read_patterns(["b", "a"])) == "a, b"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "1 to"),
        ([str(one) for one in range(PATTERNS_MAX + 1)], "let a"),
        (["a", " "], "is empty"),
        (["a\tb"], "a datasource"),
    ],
)
def test_patterns_that_are_none_are_told(texts: list[str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        read_patterns(texts)


@pytest.mark.parametrize(
    ("path", "is_closed"),
    [
        ("/druid/v2/sql", False),
        ("/druid/v2/sql/", False),
        ("/druid/v2", False),
        ("/druid/v2/datasources/a", False),
        ("/druid/v2/sql/avatica", False),
        ("/iceberg/v1/config", False),
        ("/status", False),
        ("/druid/v2/sql/task", True),
        ("/druid/v2/sql/task/", True),
        ("/druid/v2/sql/statements/q/results", True),
        ("/druid/v2x", True),
        ("/metrics", True),
        ("/", True),
        ("/proxy/overlord/druid/v2/sql", True),
        ("/druid/coordinator/v1/datasources/a", True),
        ("/not/there/yet", True),
    ],
)
def test_paths_are_closed_to_whoever_is_limited_unless_they_are_known(
    path: str, is_closed: bool
) -> None:
    assert shows_others(path) is is_closed
