"""A server that follows a script, for what a real one does only in trouble."""

from __future__ import annotations

from typing import Any

import httpx

from seriatim import Client, Retry

QUICK = Retry(wait_first=0.001, wait_max=0.002)

Reaction = httpx.Response | Exception


class Script:
    """Answers each request with the next reaction, and keeps the requests."""

    def __init__(self, *reactions: Reaction) -> None:
        self.reactions = list(reactions)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reaction = self.reactions.pop(0)
        if isinstance(reaction, Exception):
            raise reaction
        return reaction

    def client(self, retry: Retry = QUICK, **options: Any) -> Client:
        return Client("http://script", retry=retry, transport=httpx.MockTransport(self), **options)

    def keys(self) -> set[str]:
        return {request.headers["idempotency-key"] for request in self.requests}


def problem(code: str, status: int, *, retryable: bool = False, **headers: str) -> httpx.Response:
    document = {"title": "", "status": status, "code": code, "detail": "a detail", "retryable": retryable}
    return httpx.Response(
        status, json=document, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


def taken(number: int = 7) -> httpx.Response:
    answer = {"series": "s", "number": number, "count": 1, "text": str(number), "repeated": False}
    return httpx.Response(201, json=answer)
