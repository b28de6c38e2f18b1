"""Redaction of texts that may hold a password: URLs, settings of Spark, submitted tasks.

Text that is not known to be harmless is hidden. A parameter of a URL is shown if its name is on a list, and a text that
looks like a URL and is none shows its scheme only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
HARMLESS = frozenset(
    (
        "application_name", "connect_timeout", "dbname", "host", "hostaddr", "keepalives", "port", "region",
        "session_id", "sslmode", "sslrootcert", "target_session_attrs", "use_ssl", "user", "user_id", "versionid",
    )
)  # fmt: skip
"""Parameters of URLs that are shown."""
SECRET_NAME = re.compile(
    r"secret|passw|jaas|passphrase|pwd|token|credential|private[^=]?key|access[.\-_]?key|account[.\-_]?key|\bsas\b",
    re.IGNORECASE,
)
"""Names of settings that hold a secret: those that Spark hides itself, and some more."""
SHORT_MAX = 3
"""Characters of a secret that may be a part of any word: it is hidden only where a secret stands."""

# a name in brackets has a colon and no comma: else there are two ways to read each of a list
_HOST = r"(?:\[[^:@/?#;,\s]*:[^@/?#;,\s]*\]|[^:@/?#;,\s]*)(?::\d*)?"
_URL = re.compile(
    rf"(?P<user>[^:@/?#\s]*)(?P<password>:[^@/?#\s]*)?@(?P<host>{_HOST}(?:,{_HOST})*)(?P<path>/[^@?#;]*)?"
    rf"|(?P<place>{_HOST}(?:,{_HOST})*(?:/[^?#;]*)?)"
)
_PARAMETER = re.compile(r"(?P<lead>[?&;])(?P<name>[^=&;?]*)(?P<value>=[^&;]*)?")
_ASSIGNED = re.compile(
    rf"((?<!\w)(?>\w*(?:{SECRET_NAME.pattern}))\w*\s*=\s*)('[^']*'|\S+)", re.IGNORECASE
)
_MISSPELT = re.compile(r"^([a-z][a-z0-9+.-]*):.*@", re.IGNORECASE)
_INSIDE = re.compile(r"(\w://[^\s:/@?#'\"]*):[^\s@/'\"]*@")
_INSIDE_PARAMETER = re.compile(
    rf"([?&;](?>[^=&;?\s]*(?:{SECRET_NAME.pattern}))[^=&;?\s]*=)[^&;\s'\"]*", re.IGNORECASE
)
_STANDING_ALONE = r"(?<=:){0}(?=@)|(?<==){0}(?![^\s&;,)'\"])|(?<=['\"`]){0}(?=['\"`])"
"""Of a URL's password, of a parameter's value, and of a text in quotes."""


def show_url(text: str) -> str:
    """Return a URL, or a path, as it may be shown: without a password, and with harmless parameters only."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _ASSIGNED.sub(rf"\1{HIDDEN}", _MISSPELT.sub(rf"\1:{HIDDEN}@", text))
    end = _start_of_parameters(rest)
    found = _URL.fullmatch(rest, 0, end)
    if found is None:
        return f"{scheme}://{HIDDEN}"
    shown = found["place"]
    if shown is None:
        password = f":{HIDDEN}" if found["password"] else ""
        shown = f"{found['user']}{password}@{found['host']}{found['path'] or ''}"
    return f"{scheme}://{shown}{_PARAMETER.sub(_show_parameter, rest[end:])}"


def is_readable(url: str) -> bool:
    """Whether a URL can be taken apart: special characters in its password are written with percent signs."""
    rest = url.partition("://")[2]
    return _URL.fullmatch(rest, 0, _start_of_parameters(rest)) is not None


def secrets_of(url: str) -> tuple[str, ...]:
    """Return the texts that `show_url` hides of a URL, also as they are without percent signs; longest first."""
    rest = url.partition("://")[2]
    end = _start_of_parameters(rest)
    found = _URL.fullmatch(rest, 0, end)
    hidden = [rest] if found is None else [(found["password"] or "")[1:]]
    hidden += [
        (one["value"] or "")[1:]
        for one in _PARAMETER.finditer(rest, end)
        if not _is_harmless(one["name"])
    ]
    whole = {form for text in hidden for form in (text, unquote(text), unquote_plus(text)) if form}
    return tuple(sorted(whole, key=len, reverse=True))


def hide_secrets(text: str, url: str) -> str:
    """Return a driver's text about its connection without the secrets of the URL.

    A short secret is hidden where it is a password or a value by its place, or is quoted alone; a longer one anywhere.
    """
    text = text.replace(url, show_url(url))
    for secret in secrets_of(url):
        if len(secret) > SHORT_MAX:
            text = text.replace(secret, HIDDEN)
        else:
            text = re.sub(_STANDING_ALONE.format(re.escape(secret)), HIDDEN, text)
    return text


def hide_passwords(text: str) -> str:
    """Return any text without the passwords of URLs that stand in it."""
    if "://" not in text:
        return text
    return _INSIDE_PARAMETER.sub(rf"\1{HIDDEN}", _INSIDE.sub(rf"\1:{HIDDEN}@", text))


def is_secret(name: str) -> bool:
    """Whether a setting of that name holds a secret."""
    return SECRET_NAME.search(name) is not None


def show_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings by name, without the values of those that hold secrets."""
    return {
        name: HIDDEN if is_secret(name) else _show(value, are_settings=True)
        for name, value in settings.items()
    }


def show_submitted(value: Mapping[str, object]) -> dict[str, object]:
    """Return a submitted task, or its context, as it may be shown."""
    return {name: _show(item, are_settings=name in _SETTINGS) for name, item in value.items()}


_SETTINGS = frozenset(("context", "sparkConf", "properties", "consumerProperties"))
"""Objects of a task whose names are those of settings."""


def _show(value: object, *, are_settings: bool) -> object:
    if isinstance(value, str):
        return hide_passwords(value)
    if isinstance(value, Mapping):
        return show_settings(value) if are_settings else show_submitted(value)
    if isinstance(value, list | tuple):
        return [_show(item, are_settings=are_settings) for item in value]
    return value


def _start_of_parameters(rest: str) -> int:
    found = re.search(r"[?;]", rest)
    return len(rest) if found is None else found.start()


def _is_harmless(name: str) -> bool:
    return unquote(name).lower() in HARMLESS


def _show_parameter(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if value is None:
        return found["lead"] + (HIDDEN if name else "")
    return f"{found['lead']}{name}={value[1:] if _is_harmless(name) else HIDDEN}"
