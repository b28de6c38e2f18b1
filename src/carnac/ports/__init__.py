"""What the shell must offer: protocols between services and adapters.

Every adapter of a port, and its in-memory fake, passes the one behaviour suite of that port in `tests/contract/`.
"""

from carnac.ports.ambient import (
    Clock,
    IdSource,
)
from carnac.ports.distributed import (
    BrokerEngine,
    Distribution,
    LeafAnswer,
    LeafEngine,
    LeafRequest,
    PlainValue,
    RowLimit,
    SmallTable,
    Stand,
    TimeEdge,
    Way,
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
    FileSlice,
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
    "BrokerEngine",
    "Catalog",
    "ChunkLayout",
    "Clock",
    "DataPipeline",
    "DatasourceInfo",
    "DeepStorage",
    "Distribution",
    "ExportResult",
    "FileSlice",
    "Head",
    "IdSource",
    "JobProgress",
    "JobReport",
    "JobResult",
    "LeafAnswer",
    "LeafEngine",
    "LeafRequest",
    "Lease",
    "LeaseKind",
    "MetadataStore",
    "PlainValue",
    "Published",
    "QueryEngine",
    "QueryResult",
    "RejectedRows",
    "RewriteJob",
    "RewriteResult",
    "RowLimit",
    "SegmentInput",
    "SegmentRewrite",
    "SmallTable",
    "Stand",
    "StoredFile",
    "Tag",
    "TaskFilter",
    "TaskJobs",
    "TaskRecords",
    "TaskRunner",
    "TimeEdge",
    "TrashedSegment",
    "TrimReport",
    "Way",
    "WriteGuard",
]
