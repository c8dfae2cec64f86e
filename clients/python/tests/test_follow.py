from __future__ import annotations

import threading

import pytest
from server import Server

from seriatim import Client, Event, NotFoundError, Retry, Workspace


def customer(store: Workspace, name: str) -> None:
    store.submit([{"create": "Customer", "id": 1, "fields": {"name": name}}])


def names(events: list[Event]) -> list[str]:
    return [event.changes[0].fields["name"] for event in events]


def test_a_follower_returns_old_and_new_events(client: Client) -> None:
    store = client.application("shop").create_workspace("store")
    customer(store, "a")
    with store.follow() as log:
        assert next(log).changes[0].fields["name"] == "a"
        customer(store, "b")
        assert next(log).changes[0].fields["name"] == "b"
        assert log.offset == 3
    with store.follow(start=2) as log:
        assert next(log).workspace_offset == 2


def test_a_partition_is_followed_too(client: Client) -> None:
    shop = client.application("shop")
    store = shop.create_workspace("store")
    customer(store, "partition")
    event = next(store.events())
    with shop.partition(event.partition).follow(event.partition_offset) as log:
        assert next(log).workspace == store.id


def test_following_what_does_not_exist_is_an_error(client: Client) -> None:
    with pytest.raises(NotFoundError):
        next(client.application("shop").workspace(1).follow())
    with pytest.raises(NotFoundError):
        next(client.application("no-such-app").partition(0).follow())


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_follower_continues_after_a_restart(own_server: Server, end: str) -> None:
    got: list[Event] = []
    enough = threading.Condition()

    def follow(store: Workspace) -> None:
        with store.follow() as log:
            for event in log:
                with enough:
                    got.append(event)
                    enough.notify()
                if len(got) == 30:
                    return

    with Client(own_server.url, retry=Retry(attempts=100)) as client:
        store = client.application("shop").create_workspace("store")
        thread = threading.Thread(target=follow, args=[store])
        thread.start()
        for first in (0, 10, 20):
            for number in range(first, first + 10):
                customer(store, str(number))
            with enough:
                assert enough.wait_for(lambda: len(got) == first + 10, 60)  # noqa: B023
            if first < 20:
                getattr(own_server, end)()
                own_server.start()
        thread.join(60)
    assert names(got) == [str(number) for number in range(30)]
    assert [event.workspace_offset for event in got] == list(range(1, 31))
