"""Applications, their workspaces and partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..answers import WorkspaceDescriptor
from .call import AsyncCalls, route
from .log import AsyncLog
from .workspace import AsyncWorkspace


class AsyncPartition(AsyncLog):
    """A partition of an application: its log has the events of all its workspaces."""

    def __init__(self, calls: AsyncCalls, application: str, number: int) -> None:
        super().__init__(calls, route("apps", application, "partitions", number))
        self.number = number


class AsyncApplication:
    """An application that the server runs.

    >>> shop = client.application("shop")
    >>> store = await shop.create_workspace("store", name="corner")
    >>> found = await shop.find_workspace("corner")
    >>> found is not None and found.id == store.id
    True
    >>> await shop.find_workspace("no-such-store") is None
    True
    """

    def __init__(self, calls: AsyncCalls, name: str) -> None:
        self._calls = calls
        self.name = name

    async def create_workspace(self, kind: str, *, name: str | None = None, key: str | None = None) -> AsyncWorkspace:
        """Creates a workspace. The same name again gives the same workspace."""
        body = {"kind": kind} if name is None else {"kind": kind, "name": name}
        path = route("apps", self.name, "workspaces")
        return self.workspace((await self._calls.post(WorkspaceDescriptor, path, body, key=key)).id)

    def list_workspaces(self) -> AsyncIterator[WorkspaceDescriptor]:
        """All its workspaces, ascending by id."""
        return self._calls.pages(WorkspaceDescriptor, "workspaces", route("apps", self.name, "workspaces"))

    async def find_workspace(self, name: str) -> AsyncWorkspace | None:
        """The workspace with a name, if there is one."""
        page = await self._calls.get(dict[str, Any], route("apps", self.name, "workspaces"), {"name": name})
        found = msgspec.convert(page["workspaces"], list[WorkspaceDescriptor])
        return self.workspace(found[0].id) if found else None

    def workspace(self, id: int) -> AsyncWorkspace:
        """The workspace with an id. Nothing is sent."""
        return AsyncWorkspace(self._calls, self.name, id)

    def partition(self, number: int) -> AsyncPartition:
        """The partition with a number, from 0. Nothing is sent."""
        return AsyncPartition(self._calls, self.name, number)
