"""Where the schema of bodies comes from: a file, the option's own text, or a registry. The driver alone reads it."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from pymq.client.codecs import CodecError
from pymq.client.schema_registry import RegistryError, Schema, SchemaRegistry
from pymq.errors import UsageError
from pymq.spark.bodies.body_format import SCHEMA_BYTES_MAX, BodyFormat, Format, OnBadRecord
from pymq.spark.bodies.readers import reader_of
from pymq.spark.records.schema import BODY, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

IMPORTS_MAX: Final = 100  # files of one .proto
REGISTRY = "registry"
_IMPORT = re.compile(r"""\bimport\s+(?:public\s+|weak\s+)?["']([^"'\n]+)["']\s*;""")
_GOOGLES = "google/protobuf/"
_JSON_FILES = (".json", ".jsonschema")


def body_format(
    kind: Format, schema: str, topics: Sequence[str], registry: str, message: str, on_bad: OnBadRecord
) -> BodyFormat:
    """Return the schema that an option names, checked. Raises UsageError, RegistryError."""
    if schema == REGISTRY or schema.startswith(f"{REGISTRY}:"):
        found = _from_registry(kind, schema.removeprefix(REGISTRY).removeprefix(":"), topics, registry, message, on_bad)
    elif kind == "protobuf":
        found = BodyFormat(kind, _descriptors(schema), Path(schema).name, (), message, "", on_bad)
    elif schema.lstrip()[:1] in ("{", "[", '"') or (kind == "json" and not _is_file(schema)):
        found = BodyFormat(kind, schema, "the option bodySchema", (), "", "", on_bad)
    else:
        found = BodyFormat(kind, _text(Path(schema).expanduser()), Path(schema).name, (), "", "", on_bad)
    reader_of(found)
    return found


def spark_columns(names: Sequence[str], found: BodyFormat) -> StructType:
    """Return the columns with the types of the bodies' schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = arrow_schema(names)
    if BODY in names:
        schema = schema.set(names.index(BODY), schema.field(BODY).with_type(reader_of(found).arrow_type))
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def check_declared(schema: StructType, found: BodyFormat) -> None:
    """Raise UsageError when a query's column ``body`` is not of the schema: it changed, or a query declares another."""
    if BODY not in schema.fieldNames():
        return
    declared = schema[BODY].dataType.simpleString()
    own = spark_columns((BODY,), found)[BODY].dataType.simpleString()
    if declared != own:
        raise UsageError(
            f"the column body is {_shown(declared)} in the query and {_shown(own)} by {found.name}: if the schema has "
            "changed meanwhile, make the DataFrame or the table again; else leave out .schema(...) and name columns by "
            "the option columns"
        )


def _shown(kind: str) -> str:
    return kind if len(kind) <= 200 else kind[:200] + "…"


def _from_registry(
    kind: Format, subject: str, topics: Sequence[str], url: str, message: str, on_bad: OnBadRecord
) -> BodyFormat:
    if not url:
        raise UsageError("bodySchema registry needs the option registry: the URL of a schema registry")
    if not subject:
        if len(topics) != 1 or re.search(r"[*?\[!]", topics[0]):
            raise UsageError(
                "bodySchema registry is the schema of one topic: name one topic, or the subject whose newest schema "
                "the column has, as registry:Orders-value"
            )
        subject = f"{topics[0]}-value"
    schema = SchemaRegistry(url).by_subject(subject)
    if schema.kind.lower() != kind:
        raise UsageError(f"the subject {subject} is of the type {schema.kind}, and bodyFormat is {kind}: write that")
    name, references = f"{subject} of the registry", tuple(each.text for each in schema.references.values())
    if kind == "protobuf":
        return BodyFormat(kind, _compiled_schema(schema), name, (), message, url, on_bad)
    return BodyFormat(kind, schema.text, name, references, "", url, on_bad)


def _compiled_schema(schema: Schema) -> str:
    return _compiled(schema.text, {name: each.text for name, each in schema.references.items()})


def _compiled(text: str, imports: dict[str, str]) -> str:
    from pymq.client.protobuf_files import compiled

    try:
        return base64.b64encode(compiled(text, imports)).decode()
    except (CodecError, RegistryError) as error:
        raise UsageError(str(error)) from None


def _is_file(schema: str) -> bool:
    """Return whether a schema of JSON bodies is the name of a file, and no text in the form of SQL."""
    return schema.endswith(_JSON_FILES) or "/" in schema


def _descriptors(schema: str) -> str:
    """Return the descriptor set of a ``.proto`` file, or of a file that is one, in base64."""
    path = Path(schema).expanduser()
    if path.suffix != ".proto":
        return base64.b64encode(_content(path)).decode()
    text = _text(path)
    return _compiled(text, _imports(path, text))


def _imports(main: Path, text: str) -> dict[str, str]:
    """Return what a file imports, by the imports' names: files of its folder and below, and no others."""
    folder = main.parent.resolve()
    found: dict[str, str] = {}
    waiting = _IMPORT.findall(text)
    left = SCHEMA_BYTES_MAX - len(text)
    while waiting:
        name = waiting.pop()
        path = PurePosixPath(name)
        if name in found or (name.startswith(_GOOGLES) and not (folder / path).exists()):
            continue
        outside = path.is_absolute() or ".." in path.parts or not (folder / path).resolve().is_relative_to(folder)
        if outside:
            raise UsageError(f"{main.name} imports {name[:100]!r}, which is not in its folder: copy it to {folder}")
        if len(found) >= IMPORTS_MAX:
            raise UsageError(f"{main.name} imports more than {IMPORTS_MAX} files, the limit: give a descriptor set")
        found[name] = imported = _text(folder / path)
        left -= len(imported)
        if left < 0:
            raise UsageError(
                f"{main.name} and its imports have more than {SCHEMA_BYTES_MAX} bytes, the limit: give a descriptor set"
            )
        waiting += _IMPORT.findall(imported)
    return found


def _text(path: Path) -> str:
    try:
        return _content(path).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the schema {path} is no UTF-8 text ({error.reason} at byte {error.start})") from None


def _content(path: Path) -> bytes:
    """Return a file's bytes. Raises UsageError for one that isn't there, is no file, or is too large."""
    try:
        # A pipe or a device without a peer would keep the query waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"the schema {path} is no file: give the name of one")
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(SCHEMA_BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"the schema {str(path)[:200]!r} can't be read ({reason}): give the name of a file") from None
    if len(content) > SCHEMA_BYTES_MAX:
        raise UsageError(f"the schema {path} has more than {SCHEMA_BYTES_MAX} bytes, the limit: is it another file?")
    return content
