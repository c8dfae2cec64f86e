"""The asynchronous client is the source of the other one; these are the parts where tasks differ from threads."""

from __future__ import annotations

import asyncio

import pytest
from server import Server

from seriatim import AsyncClient, NotFoundError, Retry


def test_a_number_with_a_key(server: Server) -> None:
    async def run() -> None:
        async with AsyncClient(server.url) as client:
            series = client.series("async.keys")
            first, again = await series.next(key="k"), await series.next(key="k")
            assert (first.number, again.number, again.repeated) == (1, 1, True)
            assert "async.keys" in [state.series async for state in client.list_series()]
            with pytest.raises(NotFoundError):
                await client.blocks("async.none").allocate(1)

    asyncio.run(run())


def test_no_gap_and_no_duplicate_when_the_server_is_killed(own_server: Server) -> None:
    async def run() -> None:
        taken: list[int] = []

        async def take(client: AsyncClient) -> None:
            while True:
                taken.append((await client.series("crash").next()).number)

        async def more() -> None:
            seen = len(taken)
            while len(taken) < seen + 100:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

        async with AsyncClient(own_server.url, retry=Retry(attempts=100)) as client:
            tasks = [asyncio.create_task(take(client)) for _ in range(4)]
            for _ in range(2):
                await more()
                own_server.kill()
                await asyncio.to_thread(own_server.start)
            await more()
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(found, asyncio.CancelledError) for found in done)
            audit = await client.series("crash").audit()
        # A cancelled call may have taken a number that no caller has received.
        assert audit.complete
        assert len(set(taken)) == len(taken) <= audit.count <= len(taken) + 4

    asyncio.run(run())


def test_a_follower_continues_after_a_restart_and_after_a_cancelled_wait(own_server: Server) -> None:
    async def run() -> None:
        async with AsyncClient(own_server.url, retry=Retry(attempts=100)) as client:
            store = await client.application("shop").create_workspace("store")

            async def customer(name: str) -> None:
                await store.submit([{"create": "Customer", "id": 1, "fields": {"name": name}}])

            async with store.follow() as log:
                await customer("a")
                assert (await anext(log)).changes[0].fields["name"] == "a"
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await anext(log)
                await customer("b")
                assert (await anext(log)).changes[0].fields["name"] == "b"
                waiting = asyncio.ensure_future(anext(log))
                own_server.kill()
                await asyncio.to_thread(own_server.start)
                await customer("c")
                event = await asyncio.wait_for(waiting, 60)
                assert (event.changes[0].fields["name"], event.workspace_offset, log.offset) == ("c", 3, 4)

    asyncio.run(run())


@pytest.mark.parametrize("prefetch", [True, False])
def test_leases_of_two_clients_never_overlap(server: Server, prefetch: bool) -> None:
    async def run() -> None:
        async with AsyncClient(server.url) as one, AsyncClient(server.url) as two:
            name = f"async.overlap.{prefetch}"
            await one.blocks(name).create()
            leases = [client.blocks(name).lease(7, prefetch=prefetch) for client in (one, two)]

            async def some(number: int) -> list[int]:
                return [await leases[number % 2].next() for _ in range(50)]

            taken = await asyncio.gather(*(some(number) for number in range(16)))
            assert len({id for ids in taken for id in ids}) == 800
            assert all(ids == sorted(ids) for ids in taken)

    asyncio.run(run())


def test_a_workflow(server: Server) -> None:
    async def run() -> None:
        async with AsyncClient(server.url) as client:
            assert await (await client.start_workflow("greet", input="Ada")).result() == "Hello, Ada!"

    asyncio.run(run())
