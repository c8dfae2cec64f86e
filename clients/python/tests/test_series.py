from __future__ import annotations

import threading

import pytest
from server import Server

from seriatim import Client, ConflictError, ExhaustedError, InvalidError, NotFoundError, Retry


def test_a_series_counts_from_1(client: Client) -> None:
    series = client.series("counts")
    first, three = series.next(), series.next(3, note="a box")
    assert (first.number, first.count, first.text, first.repeated) == (1, 1, "1", False)
    assert (three.number, three.count) == (2, 3)
    assert series.show().next == 5


def test_the_same_key_gives_the_same_number(client: Client) -> None:
    series = client.series("keys")
    taken = series.next(2, key="order-7")
    again = series.next(2, key="order-7")
    assert (again.number, again.count, again.repeated) == (taken.number, 2, True)
    assert series.next(key="order-8").number == 3
    with pytest.raises(ConflictError):
        series.next(1, key="order-7")


def test_settings_are_kept(client: Client) -> None:
    series = client.series("settings")
    settings = {"first": 17, "format": "INV-{number:04}/A"}
    assert series.create(first=17, format="INV-{number:04}/A") == series.create(first=17, format="INV-{number:04}/A")
    assert series.next().text == "INV-0017/A"
    assert (series.show().first, series.show().format) == (settings["first"], settings["format"])
    with pytest.raises(ConflictError):
        series.create(first=18)


def test_voids_and_raises_are_in_the_audit(client: Client) -> None:
    series = client.series("audited")
    series.next(3, note="three", key="three")
    assert series.void(2, "misprint").reason == "misprint"
    assert series.raise_to(10, "imported").next == 10
    assert series.next().number == 10
    audit = series.audit()
    assert audit.complete
    assert (audit.first, audit.last, audit.count, audit.gaps) == (1, 10, 4, [])
    assert [(voided.number, voided.reason) for voided in audit.voids] == [(2, "misprint")]
    assert [(found.from_, found.to) for found in audit.raises] == [(4, 10)]
    issued = series.who_got(2)
    assert (issued.first, issued.count, issued.note, issued.idempotency_key) == (1, 3, "three", "three")
    assert issued.void is not None
    assert issued.at.tzinfo is not None
    with pytest.raises(NotFoundError):
        series.who_got(5)


def test_all_series_are_listed_over_pages(client: Client) -> None:
    names = [f"listed.{number:03}" for number in range(103)]
    for name in names:
        client.series(name).create()
    found = [state.series for state in client.list_series()]
    assert [name for name in found if name.startswith("listed.")] == names


@pytest.mark.parametrize("count", [0, -1, 10_001, 2**70])
def test_a_wrong_count_is_invalid(client: Client, count: int) -> None:
    with pytest.raises(InvalidError) as raised:
        client.series("bad").next(count)
    assert (raised.value.status, raised.value.retryable) == (400, False)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "?", "x" * 201])
def test_a_wrong_name_is_invalid(client: Client, name: str) -> None:
    with pytest.raises(InvalidError):
        client.series(name).next()


@pytest.mark.parametrize("key", ["", "a b", "ä", "a\nb", "x" * 201])
def test_a_wrong_key_is_invalid(client: Client, key: str) -> None:
    with pytest.raises(InvalidError):
        client.series("bad").next(key=key)


def test_a_number_that_was_not_taken_cannot_be_void(client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.series("never-used").void(1, "misprint")


def test_a_series_ends(client: Client) -> None:
    series = client.series("ends")
    series.raise_to(2**53 - 1, "near the end")
    with pytest.raises(ExhaustedError):
        series.next(2)
    assert series.next().number == 2**53 - 1
    assert series.show().next is None


def test_no_gap_and_no_duplicate_when_the_server_is_killed(own_server: Server) -> None:
    taken: list[int] = []
    stop = threading.Event()
    errors: list[BaseException] = []

    def take(client: Client) -> None:
        try:
            while not stop.is_set():
                taken.append(client.series("crash").next().number)
        except BaseException as error:
            errors.append(error)

    with Client(own_server.url, retry=Retry(attempts=100)) as client:
        threads = [threading.Thread(target=take, args=[client]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            seen = len(taken)
            while len(taken) < seen + 100 and not errors:
                stop.wait(0.005)
            own_server.kill()
            own_server.start()
        seen = len(taken)
        while len(taken) < seen + 100 and not errors:
            stop.wait(0.005)
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(taken) == list(range(1, len(taken) + 1))
        audit = client.series("crash").audit()
        assert (audit.complete, audit.count) == (True, len(taken))
