"""What ends a program, a run or a request, in one sentence for the user.

    AgentError                  exit 1
    ├── ConfigError             exit 2   a wrong flag, or a wrong or missing line in .env
    ├── SessionNotFound         exit 2   no session of that id or name
    ├── SessionInUse            exit 6   another process holds the session's lease
    ├── TranscriptUnavailable   exit 7   the transcript cannot be written: nothing may be done
    └── ModelFailure            exit 1   the model gave no complete answer

The README lists the exit codes. `memory` and `tools` have errors of their own; `agent` translates them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class AgentError(Exception):
    """Shown to the user in one sentence, without a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(AgentError):
    """The user can mend it; the message says where and how."""

    exit_code = 2


class SessionNotFound(AgentError):
    """No session fits the id, the name or the workspace that was asked for."""

    exit_code = 2


class SessionInUse(AgentError):
    """The message names the owner's pid and offers to fork."""

    exit_code = 6


class TranscriptUnavailable(AgentError):
    """A fact could not be written, so nothing that depends on it may happen."""

    exit_code = 7


class FailureKind(StrEnum):
    """Why the model gave no complete answer: what the loop decides by."""

    AUTHENTICATION = "authentication"  # the key is missing, wrong, or not allowed to do this
    MODEL_NOT_FOUND = "model_not_found"
    ADDRESS = "address"  # something answers there, but no model service
    UNREACHABLE = "unreachable"  # nothing answers there
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"  # the service's own trouble
    CONTEXT_TOO_LONG = "context_too_long"  # make the request shorter, then ask again
    BAD_REQUEST = "bad_request"
    STREAM_BROKEN = "stream_broken"  # the answer began, or should have, and did not come to its end
    TIMEOUT = "timeout"


class ModelFailure(AgentError):
    """One request failed. The message says what to change and never holds the key.

    `retryable`: the same request may succeed later. `retry_after_s`: the wait that the service asks for, in seconds.
    `status`: the HTTP status, if the service gave one.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status
