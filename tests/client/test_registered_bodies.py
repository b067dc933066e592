"""Bodies in Avro, Protobuf and JSON by a registry's schemas, and bodies that would ask for more than they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from pymq.client.codecs import AvroCodec, CodecError
from pymq.client.registered_bodies import INDEXES_MAX, RegisteredBodies, as_json
from pymq.client.schema_registry import RegistryError, SchemaRegistry
from pymq.errors import PymqError, UsageError
from tests.client.registries import ORDER_AVRO, ORDER_JSON, ORDER_PROTO, Registry, framed

fastavro = pytest.importorskip("fastavro", reason="NOT TESTED: the extra registry is not installed")
pytest.importorskip("grpc_tools", reason="NOT TESTED: the extra registry is not installed")

ORDER = {"id": 7, "total": 9.5}
AVRO_ORDER = AvroCodec(ORDER_AVRO).encode(ORDER)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as served:
        served.put(7, "AVRO", ORDER_AVRO, "orders-value")
        served.put(8, "PROTOBUF", ORDER_PROTO, "refunds-value")
        served.put(9, "JSON", ORDER_JSON)
        yield served


@pytest.fixture
def bodies(registry: Registry) -> RegisteredBodies:
    return RegisteredBodies(SchemaRegistry(registry.url))


@pytest.mark.parametrize(
    ("topic", "body", "value"),
    [
        ("any", framed(7, AVRO_ORDER), ORDER),
        ("any", b"\0" + (7).to_bytes(8, "big") + AVRO_ORDER, ORDER),
        ("orders", AVRO_ORDER, ORDER),
        ("any", framed(9, b'{"id": 7}'), {"id": 7}),
        ("any", framed(8, b"\0" + b"\x08\x07\x12\x03\x0a\x01x"), {"id": "7", "line": {"what": "x"}}),
        ("any", framed(8, b"\x02\x02" + b"\x08\x07"), {"order": "7"}),  # the second type: [1]
        ("any", framed(8, b"\x04\x00\x00" + b"\x0a\x01y"), {"what": "y"}),  # the nested type: [0, 0]
        ("refunds", b"\x08\x07", {"id": "7"}),
    ],
)
def test_bodies_are_read_by_their_schema(bodies: RegisteredBodies, topic: str, body: bytes, value: object) -> None:
    assert bodies.decode(topic, body) == value


def test_a_schema_is_compiled_once(bodies: RegisteredBodies, registry: Registry) -> None:
    for _ in range(3):
        bodies.decode("any", framed(8, b"\0\x08\x07"))
    assert len(registry.asked) == 1 and len(bodies._decoders) == 1


def test_types_of_other_subjects_are_known(bodies: RegisteredBodies, registry: Registry) -> None:
    registry.put(1, "AVRO", ORDER_AVRO, "order")
    references = [{"name": "shop.Order", "subject": "order", "version": 1}]
    registry.put(2, "AVRO", json.dumps({"type": "array", "items": "shop.Order"}), "", references)
    value = io.BytesIO()
    fastavro.schemaless_writer(value, {"type": "array", "items": json.loads(ORDER_AVRO)}, [ORDER, ORDER])
    assert bodies.decode("any", framed(2, value.getvalue())) == [ORDER, ORDER]
    registry.put(3, "PROTOBUF", ORDER_PROTO, "order-proto")
    imports = 'syntax = "proto3"; import "shop/order.proto"; import "google/protobuf/timestamp.proto";'
    text = imports + " message Box { shop.Order order = 1; google.protobuf.Timestamp at = 2; }"
    references = [{"name": "shop/order.proto", "subject": "order-proto", "version": 1}]
    registry.put(4, "PROTOBUF", text, "", references)
    assert bodies.decode("any", framed(4, b"\0\x0a\x02\x08\x07\x12\x00")) == {
        "order": {"id": "7"},
        "at": "1970-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (framed(7, AVRO_ORDER + b"x"), "schema 7: .* has 1 bytes behind the value"),
        (framed(7, b""), "schema 7: .* is no Avro"),
        (framed(8, b"\0\xff"), "schema 8: the body is no shop.Order"),
        (framed(8, b""), "schema 8: the body ends within the message index"),
        (framed(8, b"\x02\x0a"), r"schema 8: the message index \[5\] names no type"),
        (framed(8, b"\x02\x01"), "schema 8: the message index has -1"),
        (framed(8, b"\x80\x80\x80\x80\x80\x80"), "schema 8: the body ends within the message index"),
        (
            framed(8, bytes([2 * INDEXES_MAX + 2])),
            f"schema 8: a message index of {INDEXES_MAX + 1} levels, the limit is",
        ),
        (framed(9, b"{"), "schema 9: "),
        (framed(99, b"x"), "the schema with the id 99: .*Schema not found"),
        (b"no frame", "the subject any-value: .*Subject not found"),
        (b"\0\0\0\7", "ends within the schema's id"),
    ],
)
def test_a_body_that_can_t_be_read_names_its_schema(bodies: RegisteredBodies, body: bytes, said: str) -> None:
    with pytest.raises((CodecError, RegistryError), match=said):
        bodies.decode("any", body)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "R", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": ["null", {"type": "array", "items": "null"}]}],
        },
        {"type": "map", "values": {"type": "array", "items": "null"}},
    ],
)
def test_a_schema_by_which_ten_bytes_are_gigabytes_is_refused(
    bodies: RegisteredBodies, registry: Registry, schema: object
) -> None:
    registry.put(5, "AVRO", json.dumps(schema))
    with pytest.raises(UsageError, match="an array of items without bytes"):
        bodies.decode("any", framed(5, b"\xfe\xff\xff\xff\x7f\0"))


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("AVRO", '{"type": "nope"}', "is no Avro schema"),
        ("PROTOBUF", 'syntax = "proto3"; message {', "can't be compiled"),
        ("PROTOBUF", 'import "/etc/passwd"; message M {}', "can't be compiled"),
        ("PROTOBUF", 'syntax = "proto3"; message M { repeated X x = 1; }', "can't be compiled"),
    ],
)
def test_a_schema_that_is_none_is_named(
    bodies: RegisteredBodies, registry: Registry, kind: str, text: str, said: str
) -> None:
    registry.put(5, kind, text)
    with pytest.raises(PymqError, match=said) as caught:
        bodies.decode("any", framed(5, b"\0\0"))
    assert "root:" not in str(caught.value), "no file of the machine is shown"


@pytest.mark.parametrize("name", ["../up.proto", "/abs.proto", ""])
def test_a_reference_is_no_way_out_of_its_folder(bodies: RegisteredBodies, registry: Registry, name: str) -> None:
    registry.put(1, "PROTOBUF", ORDER_PROTO, "order")
    registry.put(2, "PROTOBUF", ORDER_PROTO, "", [{"name": name, "subject": "order", "version": 1}])
    with pytest.raises(RegistryError, match=r"no place for a file|without a name"):
        bodies.decode("any", framed(2, b"\0"))


def test_values_become_json() -> None:
    assert as_json({"a": b"\xff", "b": [1, None]}) == b'{"a":"/w==","b":[1,null]}'
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(CodecError, match="can't be shown as JSON"):
        as_json(endless)
