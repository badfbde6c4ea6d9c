"""Jobs of a Muster cluster, from Python.

    import muster_client

    client = muster_client.Client("https://10.0.0.1:7080", token="muster-…", ca="authority.pem")
    job = client.submit({"task": "counting", "steps": 10, "reduction": "sum",
                         "optimizer": {"kind": "sgd", "learning_rate": 1}})
    for event in client.follow(job.id, timeout=3600):
        print(event.text)
    print(client.digest(job.id).digest)

Every call that waits has an end, and every call may raise an error of this module: all are MusterError.
"""

from .client import Client
from .errors import (
    AlreadyExists,
    ApiError,
    ConnectionLost,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    MusterError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    TimedOut,
    Unauthenticated,
    Unavailable,
    UntrustedServer,
)
from .types import (
    OVER,
    Audit,
    Checkpoint,
    Digest,
    Event,
    HistoryStep,
    Job,
    Lineage,
    LogLine,
    Member,
    Metric,
    SavedCheckpoint,
)

__all__ = [
    "OVER", "AlreadyExists", "ApiError", "Audit", "Checkpoint", "Client", "ConnectionLost", "DataLoss",
    "DeadlineExceeded", "Digest", "Event", "FailedPrecondition", "HistoryStep", "InternalError", "InvalidArgument",
    "Job", "Lineage", "LogLine", "Member", "Metric", "MusterError", "NotFound", "PermissionDenied",
    "ResourceExhausted", "SavedCheckpoint", "TimedOut", "Unauthenticated", "Unavailable", "UntrustedServer",
]
