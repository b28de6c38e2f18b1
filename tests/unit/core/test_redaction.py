"""What is shown of texts that may hold a password."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.redaction import (
    SHORT_MAX,
    hide_passwords,
    hide_secrets,
    is_readable,
    is_secret,
    show_submitted,
    show_url,
)
from carnac.core.texts import properties_text

SECRET = "Pl4nted"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:Pl4nted@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u@h/db?password=Pl4nted&sslmode=require", "postgresql://u@h/db?password=***&sslmode=require"),
        ("postgresql://h/db?pass%77ord=Pl4nted", "postgresql://h/db?pass%77ord=***"),
        ("postgresql://h1:1,h2:2/db?options=Pl4nted", "postgresql://h1:1,h2:2/db?options=***"),
        ("postgresql:///db?host=/tmp/x&user=me", "postgresql:///db?host=/tmp/x&user=me"),
        ("postgresql://u:p@Pl4nted@h/db", "postgresql://***"),
        ("postgresql://u:p/Pl4nted@h/db", "postgresql://***"),
        ("postgresql://u:p?Pl4nted@h/db", "postgresql://***"),
        ("postgresql://u:p#Pl4nted@h/db", "postgresql://***"),
        ("postgresql://u:p@h:Pl4nted/db", "postgresql://***"),
        ("postgresql:u:Pl4nted@h/db", "postgresql:***@h/db"),
        ("host=h password=Pl4nted dbname=x", "host=h password=*** dbname=x"),
        ("sc://h:15002/;token=Pl4nted;user_id=me", "sc://h:15002/;token=***;user_id=me"),
        ("s3://bucket/a b/c@d=1.json", "s3://bucket/a b/c@d=1.json"),
        ("sqlite:////data/events.db", "sqlite:////data/events.db"),
        ("memory://", "memory://"),
        ("/data/events", "/data/events"),
        ("http://[::1]:8090/x", "http://[::1]:8090/x"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert show_url(url) == shown


@given(st.text(min_size=1).map(lambda text: f"{SECRET}{text}{SECRET}"))
def test_no_password_is_shown_whatever_its_characters(password: str) -> None:
    assert SECRET not in show_url(f"postgresql://u:{password}@h:1/db")
    escaped = quote(password, safe="", errors="surrogatepass")
    for url in (f"postgresql://u:{escaped}@h:1/db", f"postgresql://h/d?password={escaped}"):
        assert is_readable(url)
        assert SECRET not in show_url(url)
        assert SECRET not in hide_secrets(f"'{password}' or {escaped} of {url}", url)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a server at data:5432 has no database 'data'", None),
        ("user 'ada' of postgresql://ada:a@data/data?options=a", "user 'ada' of postgresql://ada:***@data/data?options=***"),
        ("invalid: 'a', ada:a@data, password=a host=data", "invalid: '***', ada:***@data, password=*** host=data"),
        ("cannot read postgresql://ada:a@data/other", "cannot read postgresql://ada:***@data/other"),
    ],
)  # fmt: skip
def test_a_short_password_is_hidden_by_its_place(said: str, shown: str | None) -> None:
    url = "postgresql://ada:a@data/data?options=a"
    assert hide_secrets(said, url) == (shown or said)


@given(st.text(min_size=1, max_size=SHORT_MAX))
def test_no_short_password_is_shown_where_one_stands(password: str) -> None:
    escaped = quote(password, safe="", errors="surrogatepass")
    url = f"postgresql://u:{escaped}@h:1/db"
    said = f"'{password}' or {url} or password={escaped} or u:{escaped}@h"
    assert (
        hide_secrets(said, url) == "'***' or postgresql://u:***@h:1/db or password=*** or u:***@h"
    )


def test_what_a_task_was_submitted_with_is_shown_without_secrets() -> None:
    given_ = {
        "type": "delete",
        "where": "token = 'x'",
        "spec": {"token": "a column", "paths": [f"s3://k:{SECRET}@b/x", "s3://b/y?a=1"]},
        "context": {"priority": 1, "sparkConf": {"spark.s3a.secret.key": SECRET, "spark.x": "y"}},
    }
    assert show_submitted(given_) == {
        "type": "delete",
        "where": "token = 'x'",
        "spec": {"token": "a column", "paths": ["s3://k:***@b/x", "s3://b/y?a=1"]},
        "context": {"priority": 1, "sparkConf": {"spark.s3a.secret.key": "***", "spark.x": "y"}},
    }


def test_names_of_settings_that_hold_secrets() -> None:
    secret = (
        "spark.hadoop.fs.s3a.secret.key",
        "spark.ssl.keyPassword",
        "fs.s3a.access.key",
        "fs.azure.account.key.x",
    )
    assert all(map(is_secret, secret))
    assert not any(
        map(is_secret, ("spark.executor.memory", "spark.ui.enabled", "spark.jars.packages"))
    )


def test_urls_inside_of_texts() -> None:
    text = f"cannot read s3://k:{SECRET}@b/x and http://h/?sig=1&X-Amz-Security-Token={SECRET} now"
    assert (
        hide_passwords(text)
        == "cannot read s3://k:***@b/x and http://h/?sig=1&X-Amz-Security-Token=*** now"
    )
    assert hide_passwords(f"password={SECRET}") == f"password={SECRET}", "no URL"


def test_a_properties_file_says_what_java_reads() -> None:
    text = properties_text({"a:b c": " x\\y\n#z", "spark.k": "a=b:c"})
    assert text == "a\\:b\\ c=\\ x\\\\y\\n#z\nspark.k=a=b:c\n"
