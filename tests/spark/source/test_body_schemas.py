"""Where the schema of bodies comes from: files and what they import, texts, registries, and the columns of a query."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pymq.client.schema_registry import RegistryError
from pymq.errors import UsageError
from pymq.spark.bodies.body_format import SCHEMA_BYTES_MAX, BodyFormat
from pymq.spark.data_source import PymqDataSource
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.selection import ALL
from pymq.spark.source.body_schemas import IMPORTS_MAX
from pymq.spark.source.options import SourceOptions
from tests.client.registries import ORDER_AVRO, ORDER_PROTO, Registry
from tests.spark.bodies.body_schemas import descriptors

PROTO = 'syntax = "proto3"; import "sub/line.proto"; message Order { int64 id = 1; Line line = 2; }'
LINE = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Line { google.protobuf.Timestamp at = 1; }'


def schema_of(kind: str, schema: str, **options: str) -> BodyFormat:
    found = SourceOptions({"bodyFormat": kind, "bodySchema": schema, **options}).body_schema
    assert found is not None
    return found


def columns_of(**options: str) -> str:
    found = PymqDataSource(options).schema()
    return found if isinstance(found, str) else found.simpleString()


def test_without_the_options_nothing_changes() -> None:
    assert SourceOptions({"registry": "http://127.0.0.1:1"}).body_schema is None
    assert columns_of(columns="body") == "body binary"


def test_avro_by_a_file_and_by_its_text(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER_AVRO)
    assert schema_of("avro", str(file)).definition == schema_of("avro", ORDER_AVRO).definition == ORDER_AVRO
    assert schema_of("avro", str(file)).name == "order.avsc"
    expected = "struct<body:struct<id:bigint,total:double>,tags:string>"
    assert columns_of(columns="body,tags", bodyFormat="avro", bodySchema=str(file)) == expected


def test_json_by_columns_and_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}}')
    for schema, fields in (
        ("a int, t timestamp_ntz, m map<string,date>", "a:int,t:timestamp_ntz,m:map<string,date>"),
        (str(file), "id:bigint,at:timestamp"),
        (file.read_text(), "id:bigint,at:timestamp"),
    ):
        assert columns_of(columns="body", bodyFormat="json", bodySchema=schema) == f"struct<body:struct<{fields}>>"


def test_protobuf_by_files_and_by_a_descriptor_set(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "order.proto").write_text(PROTO)
    (tmp_path / "sub" / "line.proto").write_text(LINE)
    (tmp_path / "set.desc").write_bytes(base64.b64decode(descriptors(ORDER_PROTO)))
    source = {"columns": "body", "bodyFormat": "protobuf"}
    expected = "struct<body:struct<id:bigint,line:struct<at:timestamp>>>"
    assert columns_of(**source, bodySchema=str(tmp_path / "order.proto")) == expected
    whole = columns_of(**source, bodySchema=str(tmp_path / "set.desc"), bodyMessage="shop.Refund")
    assert whole == "struct<body:struct<order:bigint>>"


@pytest.mark.parametrize("name", ["../line.proto", "sub/../../line.proto", "link.proto", "/etc/hosts"])
def test_an_import_from_another_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (tmp_path / "line.proto").write_text(LINE)
    (folder / "link.proto").symlink_to(tmp_path / "line.proto")
    (folder / "order.proto").write_text(PROTO.replace("sub/line.proto", name))
    with pytest.raises(UsageError, match="which is not in its folder: copy it to"):
        schema_of("protobuf", str(folder / "order.proto"))


def test_a_link_within_the_folder_is_read(tmp_path: Path) -> None:
    """A configuration that an orchestrator mounts is links to a folder beside them."""
    (tmp_path / "..data").mkdir()
    for name, text in (("order.proto", PROTO.replace("sub/", "")), ("line.proto", LINE)):
        (tmp_path / "..data" / name).write_text(text)
        (tmp_path / name).symlink_to(Path("..data") / name)
    assert schema_of("protobuf", str(tmp_path / "order.proto")).name == "order.proto"


@pytest.mark.parametrize(("imports", "is_good"), [(IMPORTS_MAX, True), (IMPORTS_MAX + 1, False)])
def test_imports_have_a_limit(tmp_path: Path, imports: int, is_good: bool) -> None:
    names = [f"f{number}.proto" for number in range(imports)]
    for name in names:
        (tmp_path / name).write_text('syntax = "proto3";')
    lines = "".join(f'import "{name}";' for name in names)
    (tmp_path / "order.proto").write_text(f'syntax = "proto3"; {lines} message M {{ int32 a = 1; }}')
    if is_good:
        schema_of("protobuf", str(tmp_path / "order.proto"))
    else:
        with pytest.raises(UsageError, match="more than 100 files, the limit"):
            schema_of("protobuf", str(tmp_path / "order.proto"))


def test_files_in_a_circle_and_files_that_are_missing_are_named_by_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text('syntax = "proto3"; import "b.proto"; message M { int32 a = 1; }')
    with pytest.raises(UsageError, match=r"b\.proto.*can't be read"):
        schema_of("protobuf", str(tmp_path / "a.proto"))
    (tmp_path / "b.proto").write_text('syntax = "proto3"; import "b.proto";')
    with pytest.raises(UsageError, match="can't be compiled"):
        schema_of("protobuf", str(tmp_path / "a.proto"))


@pytest.mark.parametrize(
    ("size", "text"), [(SCHEMA_BYTES_MAX, "is no Avro schema"), (SCHEMA_BYTES_MAX + 1, "the limit")]
)
def test_a_file_has_a_limit(tmp_path: Path, size: int, text: str) -> None:
    (tmp_path / "large.avsc").write_bytes(b" " * size)
    with pytest.raises(UsageError, match=text):
        schema_of("avro", str(tmp_path / "large.avsc"))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.avsc")
    (tmp_path / "bytes.avsc").write_bytes(b"\xff")
    for name, text in (
        ("pipe.avsc", "is no file"),
        (".", "is no file"),
        ("none.avsc", "can't be read"),
        ("bytes.avsc", "no UTF-8"),
    ):
        with pytest.raises(UsageError, match=text):
            schema_of("avro", str(tmp_path / name))
    with pytest.raises(UsageError, match="can't be read"):
        schema_of("avro", "a\0b")


def test_the_newest_schema_of_a_subject() -> None:
    with Registry() as served:
        served.put(1, "AVRO", ORDER_AVRO, "Orders-value")
        served.put(2, "PROTOBUF", ORDER_PROTO, "own")
        found = schema_of("avro", "registry", registry=served.url, topics="Orders")
        assert (found.definition, found.registry, found.name) == (
            ORDER_AVRO,
            served.url,
            "Orders-value of the registry",
        )
        refund = schema_of("protobuf", "registry:own", registry=served.url, bodyMessage="shop.Refund")
        assert refund.message == "shop.Refund"
        for topics in ("Orders,Other", "Ord*", "!Orders", ""):
            with pytest.raises(UsageError, match="name one topic, or the subject"):
                schema_of("avro", "registry", registry=served.url, topics=topics)
        with pytest.raises(UsageError, match="is of the type AVRO, and bodyFormat is json"):
            schema_of("json", "registry", registry=served.url, path="Orders")
        with pytest.raises(RegistryError, match="subject None-value"):
            schema_of("avro", "registry", registry=served.url, topics="None")
    with pytest.raises(UsageError, match="needs the option registry"):
        schema_of("avro", "registry", topics="Orders")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bodyFormat": "avro"}, "option bodyFormat is for bodies with a schema: give bodySchema too"),
        ({"bodySchema": "a int"}, "give bodyFormat too"),
        ({"onBadRecord": "null"}, "give bodyFormat too"),
        ({"bodyFormat": "xml", "bodySchema": "a int"}, "bodyFormat is 'xml': use one of avro, protobuf, json"),
        ({"bodyFormat": "json", "bodySchema": "a int", "onBadRecord": "skip"}, "use one of fail, null, table"),
        ({"bodyFormat": "json", "bodySchema": "a int", "bodyMessage": "M"}, "bodyMessage is for bodyFormat protobuf"),
    ],
)
def test_options_that_do_not_fit_each_other(options: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SourceOptions(options).read_settings(("body",), ALL)


def test_the_column_of_bad_records_needs_a_schema_and_comes_with_the_table() -> None:
    with pytest.raises(UsageError, match="badRecord needs a schema of the bodies"):
        SourceOptions({}).read_settings(("badRecord",), ALL)
    options = {"bodyFormat": "json", "bodySchema": "a int", "columns": "body", "onBadRecord": "table"}
    assert SourceOptions(options).columns() == ("body", "badRecord")
    read = SourceOptions(options).read_settings(("body", "badRecord"), ALL)
    assert read.body_schema == BodyFormat("json", "a int", "the option bodySchema", on_bad="table")
    assert ReadSettings.from_dict(json.loads(json.dumps(read.to_dict()))) == read


def test_a_schema_that_changes_before_the_read_refuses_the_query(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER_AVRO)
    source: Any = PymqDataSource({"columns": "body", "bodyFormat": "avro", "bodySchema": str(file), "path": "Orders"})
    declared = source.schema()
    source.reader(declared)
    file.write_text(ORDER_AVRO.replace("total", "amount"))
    for reader in (source.reader, source.streamReader):
        with pytest.raises(UsageError, match=r"the column body is struct<id:bigint,total:.* changed meanwhile"):
            reader(declared)
