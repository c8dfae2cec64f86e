"""Series: gap-free numbers by name."""

from __future__ import annotations

import math

from ..answers import Issued, SeriesAudit, SeriesState, Taken, VoidAnswer
from .call import AsyncCalls, route


class AsyncSeries:
    """A series. Its first use creates it.

    >>> invoices = client.series("acme.invoices")
    >>> taken = await invoices.next(note="order 7", key="order-7")
    >>> taken.number, taken.text, taken.repeated
    (1, '1', False)
    >>> (await invoices.next(note="order 7", key="order-7")).repeated
    True
    """

    def __init__(self, calls: AsyncCalls, name: str) -> None:
        self._calls = calls
        self.name = name

    def _route(self, *parts: str | int) -> str:
        return route("series", self.name, *parts)

    async def next(self, count: int = 1, *, note: str | None = None, key: str | None = None) -> Taken:
        """Takes the next number, or `count` consecutive ones: gap-free, and durable when this returns.

        The same `key` gives the same numbers again, to any caller. Without one, a random key protects the call's
        own retries. An `InDoubtError` or `InternalError` leaves open whether a number was taken; after any other
        error none was.
        """
        body = {"count": count} if note is None else {"count": count, "note": note}
        return await self._calls.post(Taken, self._route("next"), body, key=key)

    async def create(self, *, first: int = 1, format: str = "{number}") -> SeriesState:
        """Creates the series with settings. The same settings again change nothing; others are a `ConflictError`.

        >>> bills = client.series("acme.bills")
        >>> (await bills.create(first=17, format="INV-{number:06}")).next
        17
        >>> (await bills.next()).text
        'INV-000017'
        """
        return await self._calls.put(SeriesState, self._route(), {"first": first, "format": format})

    async def void(self, number: int, reason: str, *, key: str | None = None) -> VoidAnswer:
        """Marks a taken number as void: a gap that is explained.

        >>> receipts = client.series("acme.receipts")
        >>> taken = await receipts.next()
        >>> (await receipts.void(taken.number, "misprint")).void
        True
        """
        return await self._calls.post(VoidAnswer, self._route("numbers", number, "void"), {"reason": reason}, key=key)

    async def raise_to(self, next: int, reason: str, *, key: str | None = None) -> SeriesState:
        """Makes the series continue from a later number, for imports.

        >>> (await client.series("acme.imported").raise_to(5001, "imported from another system")).next
        5001
        """
        return await self._calls.post(SeriesState, self._route("raise"), {"next": next, "reason": reason}, key=key)

    async def show(self) -> SeriesState:
        """Its state."""
        return await self._calls.get(SeriesState, self._route())

    async def audit(self) -> SeriesAudit:
        """Whether it is complete. Takes longer the more numbers there are, and has no time limit.

        >>> orders = client.series("acme.orders")
        >>> _ = await orders.next(3)
        >>> report = await orders.audit()
        >>> report.complete, report.first, report.last
        (True, 1, 3)
        """
        return await self._calls.get(SeriesAudit, self._route("audit"), extra=math.inf)

    async def who_got(self, number: int) -> Issued:
        """How a number was taken: when, with which key and which note.

        >>> letters = client.series("acme.letters")
        >>> _ = await letters.next(note="to Ada", key="letter-1")
        >>> issued = await letters.who_got(1)
        >>> issued.note, issued.idempotency_key
        ('to Ada', 'letter-1')
        """
        return await self._calls.get(Issued, self._route("numbers", number))
