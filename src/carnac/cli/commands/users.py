"""`users`, `users set`, `users remove`, `users token`: the users of a store that is served."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import RUN, add_group, command
from carnac.cli.options import argument, flag, option
from carnac.cli.session import Session
from carnac.cli.tables import second_ms
from carnac.core.access import PASSWORD_MAX, Permission, read_patterns
from carnac.core.time.intervals import time_text
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.store.upkeep.users import Users

add_group("users", None, panel=RUN)

Name = Annotated[str, argument("NAME", "The user.")]


@command("users", panel=RUN, examples=["carnac users", "carnac users --json"])
def users(session: Session) -> None:
    """List who may ask a store that is served. While there is nobody, everybody may do everything.

    All processes that serve the store know of a change within seconds.
    """
    with _users(session) as known:
        found = known.list()
    if session.output.is_json:
        listed = [
            {
                "user": one.name,
                "permission": one.permission.word,
                "datasources": list(one.datasources.patterns),
                "created": time_text(one.created_at_ms),
            }
            for one in found
        ]
        session.output.json({"users": listed})
        return
    if not found:
        session.output.line(
            "there are no users, so whoever reaches a server may read and write; add one with: "
            "carnac users set NAME --may read"
        )
        return
    session.output.table(
        "user! | may | datasources | created (UTC)",
        [
            [
                one.name,
                one.permission.word,
                "all" if one.datasources.match_all else str(one.datasources),
                second_ms(one.created_at_ms),
            ]
            for one in found
        ],
    )


@command(
    "users set",
    panel=RUN,
    examples=[
        "carnac users set ana --may read",
        "carnac users set etl --may write < password-file",
        "carnac users set ana --password",
        "carnac users set bo --datasource flights --datasource 'web_*'",
    ],
)
def set_user(
    session: Session,
    name: Name,
    may: Annotated[
        str | None,
        option(
            "--may read|write|admin",
            "`read`: query and look. `write`: also load, delete, and run tasks. `admin`: also rules and configurations."
            " Default: as it is; of a new user: read.",
        ),
    ] = None,
    datasource: Annotated[
        list[str] | None,
        option(
            "--datasource NAME",
            "The user reads this datasource alone, for others there are none; may be given several times. `*` stands "
            "for any characters, `'*'` for all datasources. Default: as it is; of a new user: all.",
        ),
    ] = None,
    is_password: Annotated[bool, flag("--password", "Set a new password.")] = False,
) -> None:
    """Add a user, or change one. The password is asked for at a terminal, else it is a line of standard input."""
    from carnac.store.upkeep.users import check_limits, check_user_name

    permission = None if may is None else _permission(may)
    datasources = read_patterns(datasource) if datasource else None
    check_user_name(name)
    if permission is not None and datasources is not None:
        check_limits(permission, datasources)
    with _users(session) as known:
        is_new = name not in {one.name for one in known.list()}
        password = _ask_password(name) if is_new or is_password else None
        user = known.put(name, permission=permission, datasources=datasources, password=password)
    kept = "" if password is not None else ", with the password as it was; --password sets another"
    which = "" if user.datasources.match_all else f" {user.datasources} alone"
    session.output.answer(
        {
            "user": user.name,
            "permission": user.permission.word,
            "datasources": list(user.datasources.patterns),
            "is_new": is_new,
            "has_new_password": password is not None,
        },
        f"user {user.name} may {user.permission.word}{which}{kept}",
    )


@command("users remove", panel=RUN, examples=["carnac users remove ana"])
def remove_user(session: Session, name: Name) -> None:
    """Remove a user. With the last one the store is open to everybody again."""
    with _users(session) as known:
        known.remove(name)
        is_open = not known.list()
    session.output.answer({"user": name, "is_open": is_open}, f"user {name} is removed")
    if is_open:
        session.output.warning(
            "there are no users now: whoever reaches a server may read and write"
        )


@command("users token", panel=RUN, examples=["carnac users token ana"])
def show_token(session: Session, name: Name) -> None:
    """Print what a client sends as its bearer token in place of a password. It holds until the password changes."""
    with _users(session) as known:
        token = known.token(name)
    session.output.answer({"user": name, "token": token}, token)


@contextmanager
def _users(session: Session) -> Iterator[Users]:
    from carnac.clock import new_secret
    from carnac.store.upkeep.users import Users

    with session.open_records() as records:
        yield Users(records, session.clock, new_secret)


def _permission(word: str) -> Permission:
    found = {one.word: one for one in Permission}
    if word not in found:
        raise Invalid(f"--may {word}: a user may {', '.join(found)}; choose one of them")
    return found[word]


def _ask_password(name: str) -> str:
    if sys.stdin.isatty():
        return str(
            typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        )
    line = sys.stdin.readline(PASSWORD_MAX + 2)
    if not line:
        raise Invalid(f"no password of {name} was given; write it as a line to standard input")
    return line.rstrip("\r\n")
