"""The composition root: joins metadata, deep storage, the pipeline and the query engine to a `Store`.

A store is found by one text (`Settings.store`):

    carnac-store, /data/events         a directory: SQLite metadata and segment files, both inside it
    sqlite:////data/events/meta.db     SQLite metadata; segment files beside it, or where they were put
    postgresql://user@host/database    PostgreSQL metadata; segment files where they were put
    memory://                          nothing is kept: for tests and for trying things out

Where the segment files are is remembered by the store itself, so a person names it once, when the store is made.
Spark and DuckDB are imported when a job or a query first needs them.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import urlsplit

from carnac.bootstrap.engines import make_engine
from carnac.bootstrap.spark import make_spark_pipeline, write_notice
from carnac.clock import RandomIds, StoreClock
from carnac.config import SecretUrl, Settings, load_settings
from carnac.core.redaction import is_readable, secrets_of, show_url
from carnac.durable import find_stranger, make_folders
from carnac.errors import Invalid, NotFound, ReadOnly
from carnac.ports import Clock, DeepStorage, IdSource
from carnac.ports.storage import METADATA_FILE
from carnac.store import Store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from carnac.core.log.allocation import AllocationReply, AllocationRequest
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.overlord import Lockbox

T = TypeVar("T")

DEEP_STORAGE_FOLDER = "deep-storage"
DEEP_STORAGE_KEY = "deep_storage"
"""The store's own setting: a URL, an absolute path, or a path relative to the folder of the metadata file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLocation:
    """Where a store is.

    Attributes:
        name: Name as its user wrote it, without a password: for people.
        metadata_url: URL for `open_metadata`.
        file: The metadata file, if there is one.
    """

    name: str
    metadata_url: SecretUrl
    file: Path | None = None

    @property
    def is_memory(self) -> bool:
        """Whether nothing is kept."""
        return self.metadata_url.get_secret_value() == "memory://"

    @property
    def folder(self) -> Path | None:
        """The folder that holds the metadata file; relative deep storage starts here."""
        return None if self.file is None else self.file.parent


def name_of_store(store: object, settings: Settings) -> str:
    """Return the name of the store that a caller means; None means that of the settings.

    Raises:
        Invalid: `store` is neither a text nor a path, or the settings are none.
    """
    if not isinstance(settings, Settings):
        raise Invalid(
            f"settings are a carnac.config.Settings, not {type(settings).__name__}; give single ones by name"
        )
    if store is None:
        return settings.store.get_secret_value()
    name = os.fspath(store) if isinstance(store, os.PathLike) else store
    if not isinstance(name, str):
        raise Invalid(
            f"{type(store).__name__} names no store; give a directory or a URL as a text or a path"
        )
    return name


def settings_for(store: object, settings: Settings | None) -> Settings:
    """Return the settings, if they are None those of this folder and the environment, with the store that is meant.

    Raises:
        Invalid: As `name_of_store`.
    """
    settings = settings or load_settings(os.environ, directory=Path.cwd())
    return settings.model_copy(update={"store": name_of_store(store, settings)})


def beside_store(named: str | None, name: str, settings: Settings) -> Path:
    """Return what a setting names; None: a file or folder beside the metadata file, or else among temporary files."""
    if named is not None:
        return Path(named).expanduser().absolute()
    folder = locate_store(name_of_store(None, settings)).folder
    if folder is None:
        from carnac.ports.temporary import make_private

        folder = make_private(Path(tempfile.gettempdir()) / f"carnac-{os.geteuid()}")
    return folder / name


def locate_store(name: str) -> StoreLocation:
    """Return where the store `name` is, or would be.

    Raises:
        Invalid: `name` is neither a directory nor a URL that Carnac knows.
    """
    scheme, separator, rest = name.partition("://")
    shown = show_url(name)
    if not name.strip():
        raise Invalid("the store has an empty name; give a directory or a URL")
    if not separator:
        folder = Path(name).expanduser().absolute()
        if folder.exists() and not folder.is_dir():
            raise Invalid(f"{shown} is a file; a store is a directory or a URL", store=shown)
        file = folder / METADATA_FILE
        return StoreLocation(name=shown, metadata_url=SecretUrl(f"sqlite:///{file}"), file=file)
    if scheme == "memory":
        return StoreLocation(name=name, metadata_url=SecretUrl("memory://"))
    if scheme == "sqlite":
        if not rest.strip("/"):
            raise Invalid(f"store {shown} names no file; write it like sqlite:////data/events.db")
        file = Path(rest.removeprefix("/")).absolute()
        return StoreLocation(name=shown, metadata_url=SecretUrl(f"sqlite:///{file}"), file=file)
    if scheme.partition("+")[0] in {"postgresql", "postgres"}:
        if not is_readable(name):
            raise Invalid(
                f"store {shown} is no URL: write what is special in its password with percent signs (@ is %40)",
                store=shown,
            )
        return StoreLocation(name=shown, metadata_url=SecretUrl(name))
    raise Invalid(
        f"store {shown} is of no kind that Carnac knows; give a directory, sqlite:///…, postgresql://… or memory://",
        store=shown,
    )


def open_store(
    store: str | os.PathLike[str] | None = None,
    *,
    create: bool = False,
    settings: Settings | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    pipeline: Callable[[DeepStorage], SparkPipeline] | None = None,
    on_notice: Callable[[str], None] | None = None,
    is_for_users: bool = True,
    **overrides: object,
) -> Store:
    """Open a store; with `create`, make it first if there is none.

    Args:
        store: A directory, `sqlite:///…`, `postgresql://…` or `memory://`. None: as the settings say
            (`CARNAC_STORE`, `carnac.toml`, else the directory `carnac-store`).
        create: Make the store if it is not there.
        settings: In place of those from `carnac.toml` and the environment.
        clock: In place of the machine's clock, for tests.
        ids: In place of random ids, for tests.
        pipeline: Makes the pipeline that runs data jobs in place of Spark, for tests.
        on_notice: Called with a line when something takes long, as the start of Spark. None: it is written to standard
            error.
        is_for_users: Whether code of users may use the Spark that it starts; Spark starts sooner if only Carnac does.
        **overrides: Single settings by name, such as `spark_master="local[2]"` or `deep_storage="s3://bucket/events"`.

    Raises:
        NotFound: There is no store there, and `create` is not set.
        Invalid: A setting or the name of the store is wrong.
        Unavailable: The database or deep storage does not answer.
    """
    settings = _with_overrides(settings, overrides)
    location = locate_store(name_of_store(store, settings))
    clock, ids = clock or StoreClock(), ids or RandomIds()
    metadata = _open_metadata(location, create=create, clock=clock, ids=ids)
    try:
        deep_storage = _open_deep_storage(location, metadata, settings, create=create)
    except BaseException:
        metadata.close()
        raise
    tell = on_notice or write_notice
    spark = partial(make_spark_pipeline, settings=settings, is_for_users=is_for_users, tell=tell)
    jobs = Once(lambda: (pipeline or partial(spark, clock=clock, ids=ids))(deep_storage))
    engine = Once(lambda: make_engine(deep_storage, settings))
    opened = ExitStack()
    opened.callback(engine.close)
    opened.callback(jobs.close)
    return Store(
        metadata=metadata,
        deep_storage=deep_storage,
        pipeline=jobs,
        engine=engine,
        clock=clock,
        settings=settings,
        holder=process_name(),
        on_close=opened.close,
        allocator=_Allocator(metadata, settings),
    )


def _with_overrides(settings: Settings | None, overrides: Mapping[str, object]) -> Settings:
    if settings is None:
        return load_settings(os.environ, directory=Path.cwd(), overrides=overrides)
    return settings.model_copy(update=overrides) if overrides else settings


def find_obstacle(store: str) -> str | None:
    """Return why this process cannot write a store that is there; None if it can."""
    from carnac.metadata import find_obstacle

    return find_obstacle(locate_store(store).metadata_url.get_secret_value())


def require_writable(store: str) -> None:
    """Refuse a store that is there and that this process cannot write.

    Raises:
        ReadOnly: So it is.
    """
    obstacle = find_obstacle(store)
    if obstacle is not None:
        raise ReadOnly(f"the store can only be read here, because {obstacle}")


def open_lockbox(settings: Settings, *, clock: Clock | None = None) -> Lockbox:
    """Open the lockbox of a store that is there.

    Raises:
        NotFound, Invalid, Unavailable: As `open_store`.
    """
    clock = clock or StoreClock()
    return make_lockbox(open_records(settings=settings, clock=clock), settings, clock)


def make_lockbox(metadata: MetadataStore, settings: Settings, clock: Clock) -> Lockbox:
    """Return the lockbox over metadata that are open; it closes them."""
    from carnac.overlord import Lockbox

    return Lockbox(
        metadata,
        clock,
        holder=process_name(),
        lease_ms=settings.lease_ttl_ms,
        force_time_chunk_lock=settings.force_time_chunk_lock,
    )


def open_records(
    *,
    settings: Settings,
    clock: Clock,
    ids: IdSource | None = None,
    patience_ms: int | None = None,
) -> MetadataStore:
    """Open the metadata of a store that is there, and nothing else of it.

    Args:
        patience_ms: Time that a write waits for those of other processes; None: as `open_metadata`.

    Raises:
        NotFound, Invalid, Unavailable: As `open_store`.
    """
    location = locate_store(name_of_store(None, settings))
    metadata = _open_metadata(
        location, create=False, clock=clock, ids=ids or RandomIds(), patience_ms=patience_ms
    )
    if metadata.settings().get(DEEP_STORAGE_KEY) is None and not location.is_memory:
        metadata.close()
        raise no_store(location.name)
    return metadata


def _open_metadata(
    location: StoreLocation,
    *,
    create: bool,
    clock: Clock,
    ids: IdSource,
    patience_ms: int | None = None,
) -> MetadataStore:
    from carnac.metadata import open_metadata

    if location.file is not None and not location.file.is_file():
        if not create:
            raise no_store(location.name)
        stranger = find_stranger(location.file.parent)
        if stranger is not None:
            raise Invalid(
                f"store {location.name} is not made in a folder of another user (uid {stranger}), who could replace "
                "its files; make it in a folder of your own",
                store=location.name,
            )
        try:
            make_folders(location.file.parent)
        except OSError as error:
            raise Invalid(
                f"store {location.name} cannot be made: {error.strerror} ({error.filename})",
                store=location.name,
            ) from None
    try:
        return open_metadata(
            location.metadata_url.get_secret_value(),
            clock=clock,
            ids=ids,
            create=create,
            patience_ms=patience_ms,
            follow=clock.follow if isinstance(clock, StoreClock) else None,
        )
    except NotFound:
        raise no_store(location.name) from None


def _open_deep_storage(
    location: StoreLocation, metadata: MetadataStore, settings: Settings, *, create: bool
) -> DeepStorage:
    """Open the deep storage that the store remembers; remember one if it is new."""
    from carnac.deep_storage import open_deep_storage

    url = metadata.settings().get(DEEP_STORAGE_KEY)
    if url is None:
        is_memory = location.is_memory
        if not create and not is_memory:
            raise no_store(location.name)
        from carnac.store.upkeep.owner import take_ownership

        url = _deep_storage_of_new(location, settings)
        deep_storage = open_deep_storage(_resolve_url(location, url))
        _require_unused(deep_storage, location)
        take_ownership(deep_storage, metadata.store_id)
        metadata.put_settings({DEEP_STORAGE_KEY: url})
        return deep_storage
    return open_deep_storage(_resolve_url(location, url))


def _require_unused(deep_storage: DeepStorage, location: StoreLocation) -> None:
    """Refuse segment files of another store, or of one that lost its metadata: they would be garbage to this one.

    Raises:
        Invalid: There are some.
    """
    from carnac.store.upkeep.maintenance import SEGMENTS_PREFIX

    if next(iter(deep_storage.list_files(SEGMENTS_PREFIX)), None) is not None:
        raise Invalid(
            f"store {location.name} is not made over {show_url(deep_storage.url)}, which holds segment files already: "
            "put their metadata back, or give the new store a deep storage of its own (--deep-storage)",
            store=location.name,
        )


def _deep_storage_of_new(location: StoreLocation, settings: Settings) -> str:
    """Return what a new store remembers: relative inside its folder, so that the folder can be moved."""
    if settings.deep_storage is not None:
        given = settings.deep_storage.get_secret_value()
        if any(map(str.isspace, given.partition("://")[2].partition("/")[0])):
            raise Invalid(
                "the URL of deep storage has a blank before its path; no name of a bucket or a host has one"
            )
        if secrets_of(given):
            raise Invalid(
                f"deep storage {settings.deep_storage} has a password in its URL, which the store would keep; set keys "
                "where its library looks for them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        return absolute_url(given)
    if location.folder is not None:
        return DEEP_STORAGE_FOLDER
    if location.is_memory:
        return "memory://"
    raise Invalid(
        f"say where the segment files of {location.name} go: set deep_storage to a directory or URL, "
        "for example --deep-storage s3://bucket/events",
        store=location.name,
    )


def absolute_url(given: str) -> str:
    """Return a URL as it is, and a folder by its whole path."""
    return given if "://" in given else str(Path(given).expanduser().absolute())


def _resolve_url(location: StoreLocation, url: str) -> str:
    if "://" in url or Path(url).is_absolute() or location.folder is None:
        return url
    return str(location.folder / url)


def open_files(metadata: MetadataStore, settings: Settings) -> DeepStorage:
    """Return the deep storage of a store whose metadata are open."""
    return _open_deep_storage(
        locate_store(name_of_store(None, settings)), metadata, settings, create=False
    )


def no_store(name: str) -> NotFound:
    """Return the error for a store that is not there."""
    return NotFound(
        f"there is no store at {name}; make one with: carnac init {quote(name)}", store=name
    )


def process_name() -> str:
    """Return the name of this process, for people: command, process, machine."""
    called = Path(sys.argv[0] if sys.argv and sys.argv[0] else "python")
    command = (
        called.parent.name if called.name == "__main__.py" else called.name
    )  # python -m carnac
    return f"{command}, process {os.getpid()} on {socket.gethostname()}"


class _Allocator:
    """Gives places to the jobs of this process and to their executors (port `Allocator`)."""

    def __init__(self, metadata: MetadataStore, settings: Settings) -> None:
        self._metadata = metadata
        self._settings = settings

    def allocate(self, requests: Sequence[AllocationRequest]) -> Sequence[AllocationReply]:
        """Return what becomes of each request, in order."""
        return self._metadata.allocate(requests)

    def serving(self) -> AbstractContextManager[str]:
        """Answer over HTTP until the block ends, where the executors reach this machine; yields the URL."""
        from carnac.api.allocation import serve

        return serve(self._metadata, host=_driver_host(self._settings))


def _driver_host(settings: Settings) -> str:
    """Return the address under which executors reach this machine."""
    host = settings.spark_conf.get_secret_value().get("spark.driver.host")
    if host is not None:
        return host
    if settings.spark_remote is None and settings.spark_master.startswith("local"):
        return "127.0.0.1"
    master = urlsplit(settings.spark_master)
    if master.scheme == "spark" and master.hostname is not None:
        # sends nothing: asks the system which of its addresses leads there
        with (
            suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
        ):
            probe.connect((master.hostname, master.port or 7077))
            return str(probe.getsockname()[0])
    return socket.gethostbyname(socket.gethostname())


class Once(Generic[T]):
    """Makes a thing when it is first called for, once, and closes it if it was made. Safe for threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """Return the thing."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    def close(self) -> None:
        """Close the thing if it was made; the next call makes a new one."""
        with self._lock:
            made, self._made = self._made, []
        for thing in made:
            close = getattr(thing, "close", None)
            if close is not None:
                close()
