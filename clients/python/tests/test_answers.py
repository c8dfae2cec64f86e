"""The types of the answers agree with what the server's OpenAPI document says."""

from __future__ import annotations

import inspect
from typing import Any

import httpx
import msgspec
import pytest
from server import Server

from seriatim import answers

# The document's name of each type that has another one here.
NAMES = {
    "SeriesState": "Series",
    "BlocksState": "BlockSequence",
    "SequenceState": "Sequence",
    "WorkspaceDescriptor": "Workspace",
    "WorkflowState": "Workflow",
    "Delivery": "ToldWorkflow",
}
TYPES = [
    kind
    for _, kind in inspect.getmembers(answers, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
]


def properties(schemas: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The properties of an object and those that are always there."""
    if "$ref" in schema:
        return properties(schemas, schemas[schema["$ref"].rsplit("/", 1)[1]])
    found, required = dict(schema.get("properties", {})), set(schema.get("required", []))
    for part in schema.get("allOf", []):
        more, also = properties(schemas, part)
        found, required = {**found, **more}, required | also
    return found, required


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_a_type_agrees_with_the_document(server: Server, kind: type[msgspec.Struct]) -> None:
    schemas = httpx.get(f"{server.url}/openapi.json", trust_env=False).json()["components"]["schemas"]
    found, required = properties(schemas, schemas[NAMES.get(kind.__name__, kind.__name__)])
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert set(fields) <= set(found), "the API has no such fields"
    assert {name for name, field in fields.items() if field.required} <= required, "these may be missing"
