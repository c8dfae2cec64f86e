"""Errors, one class for each code of the API."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx
import msgspec


class SeriatimError(Exception):
    """Why a call has no answer. Each code of the API has a subclass.

    >>> try:
    ...     client.blocks("no-such-blocks").allocate(1)
    ... except NotFoundError as error:
    ...     error.code, error.status, error.retryable
    ('not_found', 404, False)
    """

    code: ClassVar[str] = "internal"

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        expected: Any = None,
        found: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        """What went wrong, for people."""
        self.status = status
        """The HTTP status; `None` if there was no answer."""
        self.retryable = retryable
        """Whether the same request can succeed later. The client has already retried such a request."""
        self.expected = expected
        """What the request expected, where that applies."""
        self.found = found
        """What was found instead."""
        self.retry_after = retry_after
        """How many seconds the server asks to wait."""

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class InvalidError(SeriatimError):
    """The request is wrong: correct it."""

    code = "invalid"


class UnauthorizedError(SeriatimError):
    """The caller is not known: send a token."""

    code = "unauthorized"


class ForbiddenError(SeriatimError):
    """The token does not have the scope that the detail names."""

    code = "forbidden"


class NotFoundError(SeriatimError):
    """It does not exist."""

    code = "not_found"


class ConflictError(SeriatimError):
    """The state is not as the request expects: read again and decide."""

    code = "conflict"


class TooLargeError(SeriatimError):
    """Send less at once."""

    code = "too_large"


class ExhaustedError(SeriatimError):
    """There are no more numbers."""

    code = "exhausted"


class BusyError(SeriatimError):
    """Not possible at the moment. Nothing was done."""

    code = "busy"


class UnavailableError(SeriatimError):
    """A part of the server does not work, or no server answers. Nothing was done."""

    code = "unavailable"


class FencedError(SeriatimError):
    """The server has a restored copy that is not unfenced."""

    code = "fenced"


class InDoubtError(SeriatimError):
    """The request may have been carried out: repeat it only with the same key."""

    code = "in_doubt"


class CorruptError(SeriatimError):
    """Stored data contradicts itself."""

    code = "corrupt"


class InternalError(SeriatimError):
    """A defect of the server, or an answer that is not one of this API."""

    code = "internal"


class WorkflowEndedError(SeriatimError):
    """A workflow ended without a result."""

    code = "ended"

    def __init__(self, id: str, status: str, failure: Any) -> None:
        message = failure.get("message") if isinstance(failure, dict) else None
        super().__init__(f"workflow {id} has ended without a result, {status}: {message or 'no reason is known'}")
        self.id = id
        """The workflow."""
        self.end = status
        """How it ended: `failed`, `cancelled`, `terminated` or `timed_out`."""
        self.failure = failure
        """Why."""


_CLASSES = {cls.code: cls for cls in SeriatimError.__subclasses__()}


class _Problem(msgspec.Struct):
    code: str
    detail: str
    retryable: bool
    expected: Any = None
    found: Any = None


def refused(response: httpx.Response, *, changes: bool) -> SeriatimError:
    """The error of an answer that is not a success. Its body has been read."""
    status, header = response.status_code, response.headers.get("retry-after", "")
    retry_after = float(header) if header.isascii() and header.isdigit() else None
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        text = f"the answer with status {status} is not one of a Seriatim server: {response.text[:200]!r}"
        if status in (429, 502, 503, 504):  # of a proxy, usually while the server restarts
            return lost(text, changes=changes, status=status, retry_after=retry_after)
        return InternalError(text, status=status)
    return _CLASSES.get(problem.code, InternalError)(
        problem.detail,
        status=status,
        retryable=problem.retryable,
        expected=problem.expected,
        found=problem.found,
        retry_after=retry_after,
    )


# The server says these only after it has looked for the key: an earlier attempt was not carried out, or is the reason.
_DECIDED = ("invalid", "not_found", "conflict", "too_large", "exhausted")


def after_doubt(error: SeriatimError) -> SeriatimError:
    """The error of an attempt that follows one that may have been carried out."""
    if error.code in (*_DECIDED, "in_doubt"):
        return error
    detail = f"{error.detail}; an earlier attempt may have been carried out"
    return InDoubtError(detail, status=error.status, retryable=error.retryable, retry_after=error.retry_after)


def lost(detail: str, *, changes: bool, status: int | None = None, retry_after: float | None = None) -> SeriatimError:
    """The error of a request that was sent and has no answer of the server."""
    if changes:
        detail = f"{detail}; the request may have been carried out"
    kind = InDoubtError if changes else UnavailableError
    return kind(detail, status=status, retryable=True, retry_after=retry_after)
