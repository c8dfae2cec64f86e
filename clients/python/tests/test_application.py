from __future__ import annotations

from decimal import Decimal

import pytest

from seriatim import Client, ConflictError, InvalidError, NotFoundError, TooLargeError


def test_workspaces_are_created_found_and_listed(client: Client) -> None:
    shop = client.application("shop")
    store = shop.create_workspace("store", name="application.corner")
    assert shop.create_workspace("store", name="application.corner").id == store.id
    found = shop.find_workspace("application.corner")
    assert found is not None
    assert found.id == store.id
    assert shop.find_workspace("application.none") is None
    assert (store.show().kind, store.show().name) == ("store", "application.corner")
    assert store.id in [workspace.id for workspace in shop.list_workspaces()]
    nameless = shop.create_workspace("store", key="application.nameless")
    assert shop.create_workspace("store", key="application.nameless").id == nameless.id


def test_a_command_creates_and_updates_records(client: Client) -> None:
    store = client.application("shop").create_workspace("store")
    answer = store.submit(
        [
            {"create": "Customer", "id": 1, "fields": {"name": "Ada"}},
            {"create": "Invoice", "id": 2, "fields": {"customer": 1, "total": Decimal("99.50")}},
            {"create": "InvoiceLine", "id": 3, "parent": 2, "fields": {"text": "tea", "amount": "99.50"}},
        ],
        key="order-1",
    )
    assert answer.numbers == {2: {"number": 1}}
    assert answer.workspace_offset == 1
    again = store.submit(
        [
            {"create": "Customer", "id": 1, "fields": {"name": "Ada"}},
            {"create": "Invoice", "id": 2, "fields": {"customer": 1, "total": "99.50"}},
            {"create": "InvoiceLine", "id": 3, "parent": 2, "fields": {"text": "tea", "amount": "99.50"}},
        ],
        key="order-1",
    )
    assert (again.ids, again.repeated) == (answer.ids, True)
    store.submit([{"update": answer.ids[2], "fields": {"total": "100.00"}}], if_match=1)
    invoice = store.record(answer.ids[2])
    assert (invoice.type, invoice.fields["total"], invoice.fields["number"]) == ("Invoice", "100.00", 1)
    assert [record.id for record in store.records("Invoice")] == [answer.ids[2]]
    assert [record.type for record in store.records()] == ["Customer"]
    assert [sequence.next for sequence in store.sequences() if sequence.name == "InvoiceNumber"] == [2]
    audit = store.audit("InvoiceNumber")
    assert (audit.complete, audit.count) == (True, 1)
    assert store.who_got("InvoiceNumber", 1).idempotency_key == "order-1"
    assert [event.workspace_offset for event in store.events()] == [1, 2]
    assert [event.workspace_offset for event in store.events(2)] == [2]


def test_a_command_takes_a_document_as_its_argument(client: Client) -> None:
    store = client.application("shop").create_workspace("store")
    lines = [{"create": "OrderLine", "id": 2, "fields": {"item": "tea", "quantity": 2}, "children": []}]
    answer = store.submit(command="PlaceOrder", args={"id": 1, "fields": {"note": "soon"}, "children": lines})
    assert set(answer.ids) == {1, 2}


def test_another_offset_than_expected_is_a_conflict(client: Client) -> None:
    store = client.application("shop").create_workspace("store")
    with pytest.raises(ConflictError) as raised:
        store.submit([{"create": "Customer", "id": 1, "fields": {"name": "Ada"}}], if_match=4)
    assert (raised.value.expected, raised.value.found) == (4, 0)


def test_wrong_commands_are_refused(client: Client) -> None:
    store = client.application("shop").create_workspace("store")
    with pytest.raises(InvalidError):
        store.submit([{"create": "NoSuchDocument", "id": 1}])
    with pytest.raises(InvalidError):
        store.submit([{"create": "Customer", "id": 0}])
    with pytest.raises(InvalidError):
        client.application("shop").create_workspace("no-such-kind")
    with pytest.raises(NotFoundError):
        client.application("no-such-app").create_workspace("store")
    with pytest.raises(NotFoundError):
        store.record(1)
    with pytest.raises(NotFoundError):
        list(store.view("no-such-view"))
    with pytest.raises(TooLargeError):
        store.submit([{"create": "Customer", "id": 1, "fields": {"name": "x" * 2_000_000}}])
    assert list(store.events()) == []
