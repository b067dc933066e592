"""Schemas of a registry: both APIs, what is kept, what is refused, and errors that name the id."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from pymq.client.codecs import CodecError
from pymq.client.schema_registry import (
    AVRO,
    FAILURE_KEPT_S,
    JSON,
    PROTOBUF,
    REFERENCES_MAX,
    SCHEMA_BYTES_MAX,
    SCHEMAS_MAX,
    Framed,
    RegistryError,
    SchemaRegistry,
    unframed,
)
from pymq.errors import UsageError
from tests.client.registries import ORDER_AVRO, ORDER_JSON, ORDER_PROTO, Registry, framed


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as served:
        served.put(7, "AVRO", ORDER_AVRO, "orders-value")
        served.put(8, "PROTOBUF", ORDER_PROTO)
        served.put(9, "JSON", ORDER_JSON)
        yield served


@pytest.mark.parametrize("path", ["", "/", "/apis/registry/v2", "/apis/registry/v3"])
def test_a_schema_comes_with_its_type_and_once(registry: Registry, path: str) -> None:
    client = SchemaRegistry(registry.url + path)
    assert [(client.by_id(each).kind, client.by_id(each).text) for each in (7, 8, 9)] == [
        (AVRO, ORDER_AVRO),
        (PROTOBUF, ORDER_PROTO),
        (JSON, ORDER_JSON),
    ]
    assert client.by_topic("orders").text == ORDER_AVRO
    count = len(registry.asked)
    client.by_id(7)
    client.by_topic("orders")
    assert len(registry.asked) == count and len(client) == 4


def test_what_a_schema_imports_comes_with_it(registry: Registry) -> None:
    registry.put(1, "PROTOBUF", "deepest", "deepest")
    registry.put(2, "PROTOBUF", "deep", "deep/one", [{"name": "deepest.proto", "subject": "deepest", "version": 1}])
    registry.put(3, "PROTOBUF", "top", "", [{"name": "deep.proto", "subject": "deep/one", "version": 1}])
    found = SchemaRegistry(registry.url).by_id(3)
    assert [(name, schema.text) for name, schema in found.references.items()] == [
        ("deepest.proto", "deepest"),
        ("deep.proto", "deep"),
    ]
    assert "/subjects/deep%2Fone/versions/1" in registry.asked


def test_a_schema_that_needs_itself_ends_at_a_limit(registry: Registry) -> None:
    registry.put(1, "AVRO", ORDER_AVRO, "loop", [{"name": "loop", "subject": "loop", "version": 1}])
    with pytest.raises(RegistryError, match=f"the schema with the id 1: it needs more than {REFERENCES_MAX} schemas"):
        SchemaRegistry(registry.url).by_id(1)
    assert len(registry.asked) == REFERENCES_MAX + 1


def test_a_missing_id_is_named_and_not_asked_for_again_at_once(registry: Registry) -> None:
    now_s = 0.0
    client = SchemaRegistry(registry.url, lambda: now_s)
    for _ in range(3):
        with pytest.raises(RegistryError, match=r"the schema with the id 77: .* status 404: .*Schema not found"):
            client.by_id(77)
    assert len(registry.asked) == 1
    registry.put(77, "AVRO", ORDER_AVRO)
    now_s = FAILURE_KEPT_S
    assert client.by_id(77).kind == AVRO
    with pytest.raises(RegistryError, match="the subject mails-value: "):
        client.by_topic("mails")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"{}", "answered no schema"),
        (200, b"[1]", "answered no schema"),
        (200, b"<html>", "answered no JSON"),
        (200, b"[" * 100_000, "answered no JSON"),
        (200, b'{"schema": 5}', "answered no schema"),
        (200, b'{"schema": "x", "schemaType": "XML\\u001b[2J"}', r"of the type 'XML\\x1b\[2J'|of the type"),
        (200, b'{"schema": "x", "references": [5]}', "references that are no objects"),
        (200, b'{"schema": "x", "references": [{"name": 5}]}', "a reference without a name"),
        (200, b'{"schema": "' + b"x" * SCHEMA_BYTES_MAX + b'"}', f"more than {SCHEMA_BYTES_MAX} bytes"),
        (302, b"", "status 302"),
        (401, b"no \x1b[2J", "status 401: no"),
        (500, b"\xff", "status 500"),
    ],
)
def test_a_registry_that_answers_nonsense_is_named(registry: Registry, status: int, body: bytes, said: str) -> None:
    registry.raw = status, body
    with pytest.raises(RegistryError, match=said) as caught:
        SchemaRegistry(registry.url).by_id(7)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 1000
    assert len(registry.asked) == 1, "no redirect is followed"


def test_a_user_is_sent_and_never_shown(registry: Registry) -> None:
    client = SchemaRegistry(f"http://ann:s%40cret@{registry.place}/")
    client.by_id(7)
    assert registry.authorizations == ["Basic " + base64.b64encode(b"ann:s@cret").decode()]
    with pytest.raises(RegistryError) as caught:
        client.by_id(70)
    assert "cret" not in str(caught.value) and registry.place in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "registry:8081", "ftp://host", "http://", "http://h:x/", "http://h/?a=1", "http://h/#f", "http://h\n/"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no registry: write http://host:8081"):
        SchemaRegistry(url)


def test_the_secret_of_a_wrong_url_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        SchemaRegistry("htp://ann:secret@host/")
    assert "secret" not in str(caught.value)


def test_nobody_at_the_address_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"the schema with the id 7: .*does not answer"):
            SchemaRegistry(url).by_id(7)


def test_only_so_many_schemas_are_kept(registry: Registry) -> None:
    client = SchemaRegistry(registry.url)
    client._known = {number: client.by_id(7) for number in range(1000, 1000 + SCHEMAS_MAX)}
    client.by_id(8)
    assert len(client) == SCHEMAS_MAX and 1000 not in client._known


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", Framed(None, b"")),
        (b"plain", Framed(None, b"plain")),
        (framed(7, b"x"), Framed(7, b"x")),
        (framed(0xFFFFFFFF, b""), Framed(0xFFFFFFFF, b"")),
        (b"\0" + (7).to_bytes(8, "big") + b"x", Framed(7, b"x")),
    ],
)
def test_frames_are_taken_off(body: bytes, expected: Framed) -> None:
    assert unframed(body) == expected


@pytest.mark.parametrize("body", [b"\0", b"\0\0\0\0", b"\0\0\0\0\0\0\0\0"])
def test_a_frame_that_ends_early_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError, match="ends within the schema's id"):
        unframed(body)
