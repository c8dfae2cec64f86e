"""Workspaces: commands, records, views and sequences."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..answers import Answer, Audit, Event, Record, Row, SequenceState, WorkspaceDescriptor
from ..requests import Change
from .call import AsyncCalls, json_text, route
from .log import AsyncLog


class AsyncWorkspace(AsyncLog):
    """A workspace of an application. `events` and `follow` read its log.

    >>> store = await client.application("shop").create_workspace("store", name="market")
    >>> answer = await store.submit([
    ...     {"create": "Invoice", "id": 1, "fields": {"total": "99.50"}},
    ...     {"create": "InvoiceLine", "id": 2, "parent": 1, "fields": {"text": "tea", "amount": "99.50"}},
    ... ])
    >>> answer.numbers[1]["number"]
    1
    >>> (await store.record(answer.ids[1])).fields["total"]
    '99.50'
    """

    def __init__(self, calls: AsyncCalls, application: str, id: int) -> None:
        self._parts = ("apps", application, "workspaces", id)
        super().__init__(calls, route(*self._parts))
        self.id = id

    def _route(self, *parts: str | int) -> str:
        return route(*self._parts, *parts)

    async def show(self) -> WorkspaceDescriptor:
        """Its id, kind and name."""
        return await self._calls.get(WorkspaceDescriptor, self._route())

    async def submit(
        self,
        changes: Sequence[Change] = (),
        *,
        command: str = "sys.Change",
        args: Any = None,
        unlogged_args: Any = None,
        if_match: int | None = None,
        key: str | None = None,
    ) -> Answer:
        """Does a command: durable when this returns. An `InDoubtError` or `InternalError` leaves open whether it was
        done; after any other error it was not.

        With `if_match` the command is done only if the workspace's last event has this offset; otherwise it is a
        `ConflictError` with `expected` and `found`. The same `key` gives the same answer again. `Decimal`, `datetime`
        and `UUID` can be used as values.

        >>> store = await client.application("shop").create_workspace("store")
        >>> order = {"id": 1, "fields": {"note": "soon"}, "children": [
        ...     {"create": "OrderLine", "id": 2, "fields": {"item": "tea", "quantity": 2}}]}
        >>> (await store.submit(command="PlaceOrder", args=order, if_match=0)).workspace_offset
        1
        """
        body = {"command": command, "changes": changes, "args": args, "unlogged_args": unlogged_args}
        body = {name: value for name, value in body.items() if value is not None}
        return await self._calls.post(Answer, self._route("commands"), body, key=key, match=if_match)

    async def record(self, id: int) -> Record:
        """The record with an id."""
        return await self._calls.get(Record, self._route("records", id))

    def records(self, type: str | None = None) -> AsyncIterator[Record]:
        """The records of a type, ascending by id; without a type, all C records of the workspace."""
        query = {"kind": "C"} if type is None else {"type": type}
        return self._calls.pages(Record, "records", self._route("records"), query)

    def view(self, name: str, prefix: Sequence[str | int] = ()) -> AsyncIterator[Row]:
        """The rows of a view whose keys begin with `prefix`, ascending by key."""
        query = {"prefix": json_text(list(prefix))} if prefix else {}
        return self._calls.pages(Row, "rows", self._route("views", name), query)

    async def sequences(self) -> list[SequenceState]:
        """Its sequences.

        >>> store = await client.application("shop").create_workspace("store")
        >>> {sequence.name: sequence.next for sequence in await store.sequences()}["InvoiceNumber"]
        1
        """
        return await self._calls.get(list[SequenceState], self._route("sequences"))

    async def audit(self, sequence: str) -> Audit:
        """Whether a sequence is complete. Takes longer the more events there are, and has no time limit."""
        return await self._calls.get(Audit, self._route("sequences", sequence, "audit"), extra=math.inf)

    async def who_got(self, sequence: str, number: int) -> Event:
        """The event that drew a number of a sequence."""
        return await self._calls.get(Event, self._route("sequences", sequence, "numbers", number))
