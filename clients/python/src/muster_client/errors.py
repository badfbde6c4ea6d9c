"""What may go wrong. Errors of the coordinator have the code, the message and the field that it gave."""

from __future__ import annotations

import json


class MusterError(Exception):
    """All errors of this package are one."""


class UntrustedServer(MusterError):
    """Who answers has not proven to be the coordinator of the cluster, and was told nothing."""


class ConnectionLost(MusterError, ConnectionError):
    """The coordinator could not be reached for as long as the client tries (`retry_for`)."""


class TimedOut(MusterError, TimeoutError):
    """The time that the caller gave is over. What was waited for goes on."""


class ApiError(MusterError):
    """The coordinator refused. `code` is for programs, `message` says what to do, `field` names what is wrong."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field


class InvalidArgument(ApiError):
    """The request, or a field of the specification, is not as it should be; `field` names it."""


class Unauthenticated(ApiError):
    """A token is needed, and there is none, a wrong one, or one that has expired."""


class PermissionDenied(ApiError):
    """The token's user may not."""


class NotFound(ApiError):
    """There is none; or it is in a namespace that the token does not see."""


class AlreadyExists(ApiError):
    """The id belongs to a job with another training specification; the message names the fields."""


class FailedPrecondition(ApiError):
    """The state of the job does not allow it; the message says what to do first."""


class ResourceExhausted(ApiError):
    """There are as many as may be, or the request is too large."""


class DataLoss(ApiError):
    """A checkpoint or the ledger is damaged."""


class InternalError(ApiError):
    """A fault of the coordinator."""


class Unavailable(ApiError):
    """The coordinator cannot answer now, and could not for as long as the client tries."""


class DeadlineExceeded(ApiError):
    """The coordinator has found no answer in time; ask again later."""


_BY_CODE: dict[str, type[ApiError]] = {
    "invalid_argument": InvalidArgument,
    "unauthenticated": Unauthenticated,
    "permission_denied": PermissionDenied,
    "not_found": NotFound,
    "already_exists": AlreadyExists,
    "failed_precondition": FailedPrecondition,
    "resource_exhausted": ResourceExhausted,
    "data_loss": DataLoss,
    "internal": InternalError,
    "unavailable": Unavailable,
    "deadline_exceeded": DeadlineExceeded,
}


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def error_of(status: int, body: bytes) -> ApiError:
    """The error that an answer stands for."""
    try:
        said = json.loads(body)["error"]
        code, message, field = str(said["code"]), _printable(str(said["message"])), said.get("field")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ApiError(status, "unknown", f"HTTP status {status} from something that is no Muster coordinator")
    return _BY_CODE.get(code, ApiError)(status, code, message, None if field is None else str(field))
