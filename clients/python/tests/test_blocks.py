from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from server import Server

from seriatim import Client, ConflictError, InvalidError, NotFoundError, Retry


def test_ids_are_allocated(client: Client) -> None:
    blocks = client.blocks("allocated")
    assert blocks.create(first=100, block_size=10).next == 100
    first, second = blocks.allocate(5), blocks.allocate(25)
    assert (first.count, second.count) == (5, 25)
    assert second.first >= first.first + 5
    assert blocks.allocate(5, key="k") == blocks.allocate(5, key="k")
    assert "allocated" in [state.name for state in client.list_blocks()]
    assert blocks.show().block_size == 10


def test_wrong_allocations_are_refused(client: Client) -> None:
    blocks = client.blocks("refused")
    with pytest.raises(NotFoundError):
        blocks.allocate(1)
    with pytest.raises(NotFoundError):
        blocks.lease().next()
    blocks.create()
    with pytest.raises(ConflictError):
        blocks.create(first=2)
    with pytest.raises(InvalidError):
        blocks.allocate(0)
    with pytest.raises(InvalidError):
        blocks.allocate(2**32 + 1)
    with pytest.raises(ValueError, match="count"):
        blocks.lease(0)


@pytest.mark.parametrize("prefetch", [True, False])
def test_leases_of_two_clients_never_overlap(server: Server, prefetch: bool) -> None:
    with Client(server.url) as one, Client(server.url) as two:
        name = f"overlap.{prefetch}"
        one.blocks(name).create(block_size=16)
        leases = [client.blocks(name).lease(7, prefetch=prefetch) for client in (one, two)]
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda n: [leases[n % 2].next() for _ in range(100)], range(16)))
        ids = [id for some in taken for id in some]
        assert len(set(ids)) == 1600
        assert all(some == sorted(some) for some in taken)


def test_a_lease_continues_after_a_restart_of_the_server(own_server: Server) -> None:
    with Client(own_server.url, retry=Retry(attempts=100)) as client:
        client.blocks("b").create()
        lease = client.blocks("b").lease(10)
        before = [lease.next() for _ in range(15)]
        own_server.kill()
        restart = threading.Thread(target=own_server.start)
        restart.start()
        after = [lease.next() for _ in range(50)]
        restart.join()
        assert len(set(before + after)) == 65


def test_a_block_that_could_not_be_fetched_ahead_is_fetched_when_it_is_needed(own_server: Server) -> None:
    with Client(own_server.url, retry=Retry(attempts=1)) as client:
        client.blocks("b").create()
        lease = client.blocks("b").lease(2)
        first = lease.next()
        own_server.kill()
        # The block is fetched ahead with the first id, so this one and perhaps two more are in memory.
        assert lease.next() > first
        own_server.start()
        ids = [lease.next() for _ in range(10)]
        assert len({first, *ids}) == 11
