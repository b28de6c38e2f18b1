"""The interface of the shell: protocols between services and adapters, and the values that they exchange.

A class that is the only one of its kind needs no protocol: `MetadataStore` is named for its type where it is used, and
`bootstrap` hands it over.
Every adapter of a port, and its in-memory fake, passes the one behaviour suite of that port in `tests/contract/`.
"""

from carnac.ports.ambient import Clock, IdSource
from carnac.ports.jobs import (
    ChunkLayout,
    JobProgress,
    JobReport,
    JobResult,
    RejectedRows,
    RewriteJob,
    RewriteResult,
    SegmentInput,
    SegmentRewrite,
    StreamProgress,
)
from carnac.ports.metadata import (
    DatasourceInfo,
    Head,
    Lease,
    LeaseKind,
    Published,
    Tag,
    TrashedSegment,
    TrimReport,
)
from carnac.ports.queries import Catalog, ExportResult, QueryResult
from carnac.ports.storage import DeepStorage, StoredFile
from carnac.ports.tasks import TaskFilter, TaskJobs, TaskRunner, WriteGuard

__all__ = [
    "Catalog",
    "ChunkLayout",
    "Clock",
    "DatasourceInfo",
    "DeepStorage",
    "ExportResult",
    "Head",
    "IdSource",
    "JobProgress",
    "JobReport",
    "JobResult",
    "Lease",
    "LeaseKind",
    "Published",
    "QueryResult",
    "RejectedRows",
    "RewriteJob",
    "RewriteResult",
    "SegmentInput",
    "SegmentRewrite",
    "StoredFile",
    "StreamProgress",
    "Tag",
    "TaskFilter",
    "TaskJobs",
    "TaskRunner",
    "TrashedSegment",
    "TrimReport",
    "WriteGuard",
]
