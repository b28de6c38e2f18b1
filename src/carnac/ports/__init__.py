"""What the shell must offer: protocols between services and adapters.

Every adapter of a port, and its in-memory fake, passes the one behaviour suite of that port in `tests/contract/`.
"""

from carnac.ports.ambient import (
    Clock,
    IdSource,
)
from carnac.ports.jobs import (
    ChunkLayout,
    DataPipeline,
    JobProgress,
    JobReport,
    JobResult,
    RejectedRows,
    RewriteJob,
    RewriteResult,
    SegmentInput,
    SegmentRewrite,
)
from carnac.ports.metadata import (
    DatasourceInfo,
    Head,
    Lease,
    LeaseKind,
    MetadataStore,
    Published,
    Tag,
    TrashedSegment,
    TrimReport,
)
from carnac.ports.queries import (
    Catalog,
    ExportResult,
    QueryEngine,
    QueryResult,
)
from carnac.ports.storage import (
    DeepStorage,
    StoredFile,
)
from carnac.ports.task_records import (
    TaskFilter,
    TaskRecords,
)
from carnac.ports.tasks import (
    TaskJobs,
    TaskRunner,
    WriteGuard,
)

__all__ = [
    "Catalog",
    "ChunkLayout",
    "Clock",
    "DataPipeline",
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
    "MetadataStore",
    "Published",
    "QueryEngine",
    "QueryResult",
    "RejectedRows",
    "RewriteJob",
    "RewriteResult",
    "SegmentInput",
    "SegmentRewrite",
    "StoredFile",
    "Tag",
    "TaskFilter",
    "TaskJobs",
    "TaskRecords",
    "TaskRunner",
    "TrashedSegment",
    "TrimReport",
    "WriteGuard",
]
