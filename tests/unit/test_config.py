"""Settings: file, environment, overrides, and what a mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from carnac.config import Settings, load_settings, to_environ
from carnac.errors import Invalid


def test_defaults_need_nothing(tmp_path: Path) -> None:
    assert load_settings({}, directory=tmp_path) == Settings()


def test_environment_beats_the_file_and_overrides_beat_both(tmp_path: Path) -> None:
    (tmp_path / "carnac.toml").write_text(
        'store = "a"\nspark_master = "local[1]"\nlease_ttl_ms = 2000\n'
    )
    env = {"CARNAC_STORE": "b", "CARNAC_LEASE_TTL_MS": "3000", "UNRELATED": "x"}
    env |= {"CARNAC_SERVICE_PORT": "8888", "CARNAC_JDK_HOME": "/opt/java"}  # of Kubernetes, of us
    settings = load_settings(
        env, directory=tmp_path, overrides={"store": "c", "spark_master": None}
    )
    assert (str(settings.store), settings.spark_master, settings.lease_ttl_ms) == (
        "c",
        "local[1]",
        3000,
    )


def test_the_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('\ufeff[spark_conf]\n"spark.executor.memory" = "2g"\n')
    env = {"CARNAC_CONFIG": str(tmp_path / "other.toml")}
    assert load_settings(env, directory=Path("/nowhere")).spark_conf.get_secret_value() == {
        "spark.executor.memory": "2g"
    }


def test_spark_conf_from_the_environment_is_json(tmp_path: Path) -> None:
    env = {"CARNAC_SPARK_CONF": '{"spark.ui.enabled": "true"}'}
    assert load_settings(env, directory=tmp_path).spark_conf.get_secret_value() == {
        "spark.ui.enabled": "true"
    }


@pytest.mark.parametrize(
    ("toml", "env", "message"),
    [
        (
            "# mine\nstor = 1\n",
            {},
            "carnac.toml, line 2: there is no setting 'stor'; did you mean 'store'?",
        ),
        (
            "xyzzy = 1\n",
            {},
            "line 1: there is no setting 'xyzzy'; there are avatica_connections_max",
        ),
        (
            "\n\n[http_host]\na = 1\n",
            {},
            "line 3: there is no setting 'http_host'; did you mean 'http_hosts'?",
        ),
        ('lease_ttl_ms = "soon"\n', {}, "line 1: setting 'lease_ttl_ms' is wrong: input should be"),
        ("", {"CARNAC_LEASE_TTL_MS": "soon"}, "setting 'lease_ttl_ms' is wrong: input should be"),
        (
            "",
            {"CARNAC_LEASE_TTL_MS": "5"},
            "setting 'lease_ttl_ms' is wrong: input should be greater",
        ),
        ("", {"CARNAC_HISTORICAL_CAPACITY_BYTES": "10"}, "should be greater than or equal to 1024"),
        ("", {"CARNAC_LEASE_TTL_MS": "86400001"}, "should be less than or equal to 86400000"),
        ("", {"CARNAC_QUERY_TIMEOUT_MS": "9999999999999"}, "should be less than or equal to 31536"),
        ("", {"CARNAC_MOVES_MAX": "99999999999999999999"}, "should be less than or equal to 9007"),
        ("", {"CARNAC_QUERY_THREADS": "100000"}, "should be less than or equal to 1024"),
        ("", {"CARNAC_QUERY_LANES": '{"reports": 0}'}, "each lane a slot at least"),
        ("", {"CARNAC_SPARK_CONF": "x=y"}, "CARNAC_SPARK_CONF must be a JSON object"),
        (
            "",
            {"CARNAC_STOR": "x"},
            "variable CARNAC_STOR is no setting; did you mean CARNAC_STORE?",
        ),
        ("store = \n", {}, "is not TOML"),
        ("", {"CARNAC_CONFIG": "/nowhere/carnac.toml"}, "cannot be read: No such file"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, toml: str, env: dict[str, str], message: str
) -> None:
    (tmp_path / "carnac.toml").write_text(toml)
    with pytest.raises(Invalid) as caught:
        load_settings(env, directory=tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_settings_go_through_the_environment_unchanged(tmp_path: Path) -> None:
    settings = Settings(
        store="postgresql://u:p@h/db",
        spark_conf={"spark.executor.memory": "8g"},
        force_time_chunk_lock=False,
        retention_count=7,
        task_runner="spark_submit",
    )
    (tmp_path / "carnac.toml").write_text('store = "another"\nretention_daily = 3\n')
    assert load_settings(to_environ(settings), directory=tmp_path) == settings
