"""Schemas of a folder, by topic."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from pymq.client.codecs import CodecError
from pymq.errors import UsageError
from pymq.operations.message.schemas import Schemas

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}


def write_descriptor(path: Path) -> None:
    """Write the descriptors of ``shop.Order`` with the number ``id``."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    files = descriptor_pb2.FileDescriptorSet()
    one = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    field = one.message_type.add(name="Order").field.add(name="id", number=1)
    field.type, field.label = field.TYPE_INT64, field.LABEL_OPTIONAL
    path.write_bytes(files.SerializeToString())


def avro_body(value: object) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(AVRO), value)
    return target.getvalue()


def test_a_topic_is_decoded_with_the_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    write_descriptor(tmp_path / "sales.shop.Order.desc")
    (tmp_path / "README.md").write_text("no schema")
    schemas = Schemas(tmp_path)
    assert "orders" in schemas and "sales" in schemas and "other" not in schemas and "README" not in schemas
    assert json.loads(schemas.decode("orders", avro_body({"id": 17, "name": "Bob"}))) == {"id": 17, "name": "Bob"}
    assert json.loads(schemas.decode("sales", b"\x08\x11")) == {"id": "17"}
    with pytest.raises(CodecError):
        schemas.decode("orders", b"\xff")


def test_an_avro_file_is_refused_because_it_may_inflate_without_bound(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    with pytest.raises(CodecError, match="schema of its own"):
        Schemas(tmp_path).decode("orders", b"Obj\x01rest")


def test_without_a_folder_no_topic_has_a_schema() -> None:
    assert "orders" not in Schemas(None)


def test_a_wrong_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        Schemas(tmp_path / "none")
    (tmp_path / "orders.desc").write_bytes(b"")
    with pytest.raises(UsageError, match="names no type"):
        Schemas(tmp_path)
    (tmp_path / "orders.desc").rename(tmp_path / "orders.shop.Order.desc")
    (tmp_path / "orders.avsc").write_text("{}")
    with pytest.raises(UsageError, match="two schemas of the topic orders"):
        Schemas(tmp_path)


def test_a_file_that_is_no_schema_is_refused_at_its_use(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text("no schema")
    with pytest.raises(UsageError, match="no Avro schema"):
        Schemas(tmp_path).decode("orders", b"\x02")
