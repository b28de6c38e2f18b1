"""Fixtures for every test: Spark, PostgreSQL, an empty store directory; and the profiles of Hypothesis.

One Spark session and one PostgreSQL server serve the whole run; each starts when the first test
asks for it, so a run without such tests starts neither. `HYPOTHESIS_PROFILE=nightly` looks longer
for counterexamples.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings

from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.spark.session import SparkHolder, SparkSettings
from tests.class_archive import CACHES, TESTS_MIN, prepare_once
from tests.nightly import IS_NIGHTLY, NIGHT_S
from tests.sampling import left_out
from tests.scheduling import SPARK, OneSpark, is_in_spark_folder
from tests.support.clock import FakeClock, SequentialIds
from tests.support.postgresql import PostgreSQLServer, run_postgresql
from tests.support.spark_cluster import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

IS_ARCHIVE_WORTH_IT = pytest.StashKey[bool]()
YOUNG_OBJECTS = 20_000
"""How many new objects there are before garbage is looked for: at Python's 700 that took a twentieth of the time."""

END_OF_CERTIFICATE = "-----END CERTIFICATE-----"

# No deadline: the machines that run this share their cores, and a slow example is not a wrong one.
COMMON = {"deadline": None, "print_blob": True}
settings.register_profile("fast", max_examples=6, stateful_step_count=10, **COMMON)  # make check
settings.register_profile("day", max_examples=16, stateful_step_count=20, **COMMON)
settings.register_profile(
    "nightly",
    max_examples=3000,
    stateful_step_count=120,
    suppress_health_check=[HealthCheck.too_slow],
    **COMMON,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "day")


def pytest_configure(config: pytest.Config) -> None:
    """Keep settings of the machine for Carnac out of the tests; have Java not optimize code that lives for seconds.

    A Spark that is started for a few small jobs takes half the processor time so. Processes that tests start inherit
    the options, and the folder of caches, which the processes of one run share.
    """
    if not hasattr(config, "workerinput"):
        os.environ[CACHES] = tempfile.mkdtemp(prefix="carnac caches ")
        config.add_cleanup(partial(remove_caches, os.environ[CACHES], os.getpid()))
        os.environ["SSL_CERT_FILE"] = str(write_trusted(Path(os.environ[CACHES])))
        config.pluginmanager.register(FailuresAtOnce(config))
    for name in [name for name in os.environ if name.startswith("CARNAC_")]:
        del os.environ[name]
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ[name] = SHORT_LIVED
    # a shell lets what it does not wait for ignore it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class FailuresAtOnce:
    """Says what failed when it does: a run that is ended from outside never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the test and the first line of why."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = str(report.longrepr if crash is None else crash.message).splitlines()
            reporter.write_line(f"\n{report.nodeid} failed: {' '.join(lines[:1])}")


def write_trusted(folder: Path) -> Path:
    """Write the first of the certificates that clients trust; all of them take each client 25 ms to read."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition(END_OF_CERTIFICATE)
    path = folder / "trusted.pem"
    path.write_text(f"{first}{end}\n", encoding="utf-8")
    return path


def remove_caches(folder: str, process: int) -> None:
    """Remove what the processes of a run share, in the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while modules and tests are loaded, nor ever among them: they stay until the end.

    Look for it seldom among what the tests make.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        atexit.register(gc.unfreeze)  # pytest looks for garbage several times before


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folders, give them time by night, skip some by day, and begin with those that take long.

    Tests that use the shared Spark must be where the scheduler finds them.
    """
    for item in items:
        if is_in_spark_folder(item.nodeid):
            item.add_marker("spark")
        if item.nodeid.startswith("tests/e2e/"):
            item.add_marker("e2e")
        if IS_NIGHTLY:
            item.add_marker(pytest.mark.timeout(NIGHT_S), append=False)
        elif (nightly := item.get_closest_marker("nightly")) is not None:
            item.add_marker(pytest.mark.skip(f"{nightly.args[0]}: for the nightly profile"))
        if uses_spark(item) and not is_in_spark_folder(item.nodeid):
            message = f"{item.nodeid} uses the shared Spark session: move it to a folder '{SPARK}'"
            raise pytest.UsageError(message)
    items.sort(key=weight, reverse=True)
    for item in left_out(items):
        item.add_marker("slow")


def weight(item: pytest.Item) -> int:
    """Return a rank that puts what takes long before what is soon done, so that all processes end together."""
    if is_in_spark_folder(item.nodeid):
        return 4
    is_slow = item.get_closest_marker("slow") is not None
    if is_slow and item.get_closest_marker("spark"):
        return 3
    if item.get_closest_marker("e2e"):
        return 2
    return int(is_slow or item.nodeid.startswith(("tests/stateful/", "tests/property/")))


def pytest_collection_finish(session: pytest.Session) -> None:
    """See whether an archive of Java classes is worth its making."""
    tests = sum(starts_spark(item) for item in session.items)
    session.config.stash[IS_ARCHIVE_WORTH_IT] = tests >= TESTS_MIN


def starts_spark(item: pytest.Item) -> bool:
    """Whether a test starts a Spark of its own."""
    if item.get_closest_marker("skip") is not None:
        return False
    return item.get_closest_marker("spark") is not None and not is_in_spark_folder(item.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the time of the test itself begins
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have an archive of Java classes made before the first test that starts a Spark of its own."""
    if starts_spark(item) and item.config.stash[IS_ARCHIVE_WORTH_IT]:
        prepare_once(is_patient=False)
    return (yield)


def uses_spark(item: pytest.Item) -> bool:
    """Whether a test asks for the shared Spark session."""
    return "spark_holder" in getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark:
    """Return what hands the tests to the processes."""
    return OneSpark(config, log)


@pytest.fixture(scope="session")
def spark_holder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHolder]:
    """The one Spark of the run, two cores and four shuffle partitions; started when first asked."""
    folder = tmp_path_factory.mktemp("spark")
    holder = SparkHolder(
        SparkSettings(
            master="local[2]",
            config={
                "spark.sql.shuffle.partitions": "4",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder / "local"),
            },
            log_path=folder / "spark.log",
        )
    )
    yield holder
    holder.close()


@pytest.fixture(scope="session")
def spark(spark_holder: SparkHolder) -> SparkSession:
    """The session of the one Spark of the run."""
    return spark_holder.session()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    """One real PostgreSQL server for the run."""
    with run_postgresql() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgreSQLServer) -> str:
    """The URL of an empty database of this test's own."""
    return postgresql_server.create_database("test")


@pytest.fixture
def memory_store() -> Iterator[MetadataStore]:
    """An empty metadata store whose clock stands."""
    store = open_metadata("memory://", clock=FakeClock(), ids=SequentialIds())
    yield store
    store.close()


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    """An empty directory for a store of this test's own."""
    path = tmp_path / "store"
    path.mkdir()
    return path
