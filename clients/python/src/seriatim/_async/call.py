"""Calls: each is sent until there is an answer or the bounds of its retries are reached."""

from __future__ import annotations

import math
import os
import re
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import tenacity

from ..errors import (
    InDoubtError,
    InternalError,
    InvalidError,
    SeriatimError,
    UnavailableError,
    after_doubt,
    lost,
    refused,
)
from ..retry import Retry

T = TypeVar("T")
Query = Mapping[str, str | int | None]

CONNECT_TIMEOUT = 5.0
"""Opening a connection takes longer only if no server is there."""

LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
"""Each follower has a connection of its own, and other calls must not wait for them."""


def route(*parts: str | int) -> str:
    """A path of the API with its parts escaped."""
    texts = [str(part) for part in parts]
    for text in texts:
        if text in ("", ".", ".."):
            raise InvalidError(f"{text!r} cannot be a part of an address")
    return "/v1/" + "/".join(quote(text, safe="") for text in texts)


def new_key(key: str | None) -> str:
    """The caller's idempotency key, or a random one."""
    if key is None:
        return uuid.uuid4().hex
    if not re.fullmatch(r"[!-~]{1,200}", key):
        raise InvalidError(f"an idempotency key has 1 to 200 bytes of ASCII without spaces, not {key!r}")
    return key


class AsyncCalls:
    """The connections to one server, and how calls are made over them."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        retry: Retry,
        timeout: float,
        silence_max: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        if not re.match(r"https?://[^/\s]", url):
            raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:7400")
        if token is not None and not re.fullmatch("[!-~]+", token):
            raise ValueError("a token is ASCII without spaces")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self.url = url
        self.retry = retry
        self.silence_max = silence_max
        self._timeout = timeout
        self._process = os.getpid()
        self._http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport, limits=LIMITS)

    async def close(self) -> None:
        await self._http.aclose()

    def check_process(self) -> None:
        """Refuses to work in a forked process, which would share connections and leased ids with its parent."""
        if os.getpid() != self._process:
            raise RuntimeError("this client was made before a fork: make one in each process")

    async def get(self, answer: type[T], path: str, query: Query | None = None, *, extra: float = 0.0) -> T:
        """Reads. Parameters that are `None` are left out. `extra` seconds are allowed beyond the time limits."""
        return await self._call(answer, "GET", path, query=query, extra=extra)

    async def put(self, answer: type[T], path: str, body: Any) -> T:
        """Sets a state: repeating it changes nothing."""
        return await self._call(answer, "PUT", path, body=body, changes=True)

    async def post(self, answer: type[T], path: str, body: Any, *, key: str | None, match: int | None = None) -> T:
        """Changes something. All attempts have the same key, so that the change is made once."""
        headers = {"idempotency-key": new_key(key)}
        if match is not None:
            headers["if-match"] = f'"{match}"'
        return await self._call(answer, "POST", path, body=body, headers=headers, changes=True)

    async def ask(self, answer: type[T], path: str, body: Any) -> T:
        """A POST that may be repeated without a key."""
        return await self._call(answer, "POST", path, body=body)

    async def pages(
        self, item: type[T], field: str, path: str, query: Query | None = None, *, cursor: str = "after"
    ) -> AsyncIterator[T]:
        """All items of a list, page by page."""
        after = None
        while True:
            page = await self.get(dict[str, Any], path, {**(query or {}), cursor: after})
            for found in msgspec.convert(page[field], list[item]):  # type: ignore[valid-type]
                yield found
            if page["next"] is None:
                return
            after = json_text(page["next"]) if isinstance(page["next"], list) else page["next"]

    async def stream(self, path: str, headers: Mapping[str, str], query: Query) -> httpx.Response:
        """An answer whose body the caller reads and closes."""
        timeout = httpx.Timeout(self._timeout, connect=CONNECT_TIMEOUT, read=self.silence_max)
        request = self._http.build_request("GET", path, params=query, headers=headers, timeout=timeout)
        return await tenacity.AsyncRetrying(**self.retry.rules())(self._send, request, stream=True, changes=False)

    async def _call(
        self,
        answer: type[T],
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        changes: bool = False,
        extra: float = 0.0,
    ) -> T:
        content = None if body is None else msgspec.json.encode(body)
        params = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {**(headers or {}), **({} if content is None else {"content-type": "application/json"})}
        deadline = time.monotonic() + self.retry.time_limit + extra
        in_doubt = False

        async def once() -> httpx.Response:
            # No attempt takes longer than the rest of the call's time.
            limit = max(0.001, min(self._timeout + extra, deadline - time.monotonic()))
            timeout = httpx.Timeout(None if limit == math.inf else limit, connect=min(limit, CONNECT_TIMEOUT))
            request = self._http.build_request(
                method, path, content=content, params=params, headers=headers, timeout=timeout
            )
            nonlocal in_doubt
            try:
                return await self._send(request, changes=changes)
            except SeriatimError as error:
                found = after_doubt(error) if in_doubt else error
                in_doubt = isinstance(found, InDoubtError)
                if found is error:
                    raise
                raise found from error

        response: httpx.Response = await tenacity.AsyncRetrying(**self.retry.rules(extra))(once)
        try:
            return msgspec.json.decode(response.content or b"null", type=answer)
        except msgspec.MsgspecError as error:
            text = f"{self.url} does not answer like a Seriatim server of this version: {error}"
            raise InternalError(text, status=response.status_code) from error

    async def _send(self, request: httpx.Request, *, changes: bool, stream: bool = False) -> httpx.Response:
        self.check_process()
        try:
            response = await self._http.send(request, stream=stream)
            if response.is_success:
                return response
            await response.aread()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            text = f"no server answers at {self.url}: {error}; start one with `seriatim serve`, or name another"
            raise UnavailableError(text, retryable=not _is_insecure(error)) from error
        except httpx.LocalProtocolError as error:
            raise InvalidError(f"the request cannot be sent: {error}") from error
        except httpx.RequestError as error:
            text = f"the answer of {self.url} was lost: {error or type(error).__name__}"
            raise lost(text, changes=changes) from error
        raise refused(response, changes=changes)


def json_text(value: Any) -> str:
    """A value as JSON, for a query parameter."""
    return msgspec.json.encode(value).decode()


def _is_insecure(error: BaseException | None) -> bool:
    """Whether a server answers, but its certificate is not accepted: waiting does not help."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None
