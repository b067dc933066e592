"""Schemas of a registry: Confluent's API, which Apicurio and others serve too, and Apicurio's own.

A body that a registry's serializer wrote begins with a zero byte and the schema's id, a 32-bit number (Apicurio's older
serializers write 64 bits). Any other body has the newest schema of the subject ``TOPIC-value``.

Facts: Confluent's "Wire format" and "Schema Registry API"; Apicurio Registry's REST API v2 and v3.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from pymq.client.codecs import CodecError
from pymq.errors import PymqError, UsageError
from pymq.printable import printable

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
FETCH_TIMEOUT_S: Final = 5.0
SCHEMA_BYTES_MAX: Final = 4 * 1024 * 1024  # of one answer
REFERENCES_MAX: Final = 100  # schemas that one schema needs, itself included
SCHEMAS_MAX: Final = 1000  # kept; beyond, the oldest are asked for again
FAILURE_KEPT_S: Final = 10.0  # an id that the registry lacks is not asked for again before
HTTP_OK, HTTP_NOT_FOUND = 200, 404
_ID_END, _LONG_ID_END = 5, 9
_APICURIO = re.compile(r"/apis/registry/v[23]/?$")
_SHOWN_LENGTH = 200


class RegistryError(PymqError):
    """A registry doesn't answer, or not with a schema."""


class MissingSchemaError(RegistryError):
    """A registry has no schema with an id, or none of a subject."""


@dataclass(frozen=True)
class Schema:
    """One schema. ``kind``: :data:`AVRO`, :data:`PROTOBUF` or :data:`JSON`; ``text`` is its source.

    ``references``: name -> schema, of what it imports, in an order in which each stands behind what it needs itself.
    """

    kind: str
    text: str
    references: dict[str, Schema]


@dataclass(frozen=True)
class Framed:
    """A body without its frame. ``schema_id`` None: it has none."""

    schema_id: int | None
    payload: bytes


def unframed(body: bytes) -> Framed:
    """Return the id and the payload of a body. Raises CodecError for a frame that ends early."""
    if body[:1] != b"\0":
        return Framed(None, body)
    schema_id = int.from_bytes(body[1:_ID_END], "big")
    end = _ID_END
    if schema_id == 0:  # no registry has it: the first half of 64 bits
        schema_id, end = int.from_bytes(body[1:_LONG_ID_END], "big"), _LONG_ID_END
    if len(body) < end:
        raise CodecError(f"the body of {len(body)} bytes begins as a registry's, and ends within the schema's id")
    return Framed(schema_id, body[end:])


class SchemaRegistry:
    """Asks one registry, and keeps what it answered. One thread calls it; each call may wait for FETCH_TIMEOUT_S.

    ``url``: ``http://host:8081``, ``https://user:secret@host/…``, Apicurio's ``http://host:8080/apis/registry/v3``. The
    user and secret are sent and never shown. A certificate must be of an authority of this machine or of SSL_CERT_FILE.
    """

    def __init__(self, url: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """Raise UsageError for a text that is no URL."""
        parts = urlsplit(url if url.isprintable() else "")
        try:
            port, host = parts.port, parts.hostname
        except ValueError:
            port, host = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise UsageError(
                f"{printable(_without_secret(url))[:_SHOWN_LENGTH]!r} is no registry: write http://host:8081"
            )
        self._is_tls, self._host, self._port = parts.scheme == "https", host, port
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json, */*"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._is_apicurio = _APICURIO.search(parts.path) is not None
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._path}"
        self._now_s = now_s
        self._known: dict[int | str, Schema] = {}
        self._failed: dict[int | str, tuple[float, RegistryError]] = {}

    def __len__(self) -> int:
        """Return how many schemas are kept."""
        return len(self._known)

    def by_id(self, schema_id: int) -> Schema:
        """Return the schema with an id. Raises RegistryError, which names it; MissingSchemaError for an unknown one."""
        return self._kept(schema_id, f"the schema with the id {schema_id}", lambda: self._fetch_id(schema_id))

    def by_topic(self, topic: str) -> Schema:
        """Return the newest schema of the subject ``TOPIC-value``. Raises RegistryError."""
        return self.by_subject(f"{topic}-value")

    def by_subject(self, subject: str) -> Schema:
        """Return the newest schema of a subject. Raises RegistryError."""
        return self._kept(subject, f"the subject {subject}", lambda: self._fetch_subject(subject, "latest"))

    def _kept(self, key: int | str, what: str, fetch: Callable[[], Schema]) -> Schema:
        known = self._known.get(key)
        if known is not None:
            return known
        failed = self._failed.get(key)
        if failed is not None and self._now_s() < failed[0]:
            raise failed[1]
        try:
            found = fetch()
        except RegistryError as error:
            named = type(error)(f"{what}: {error}")
            self._failed[key] = self._now_s() + FAILURE_KEPT_S, named
            _drop_oldest(self._failed)
            raise named from None
        self._known[key] = found
        _drop_oldest(self._known)
        return found

    def _fetch_id(self, schema_id: int) -> Schema:
        if self._is_apicurio:
            headers, body = self._get(f"/ids/globalIds/{schema_id}?returnArtifactType=true")
            text = _text(body)
            references = self._get_json(f"/ids/globalIds/{schema_id}/references")
            kind = headers.get("x-registry-artifacttype", "").upper()
            return self._with_references(kind or _guessed_kind(text), text, references)
        return self._from_confluent(self._get_json(f"/schemas/ids/{schema_id}"))

    def _fetch_subject(self, subject: str, version: str) -> Schema:
        if self._is_apicurio:
            _, body = self._get(f"/groups/default/artifacts/{quote(subject, safe='')}" + self._newest())
            text = _text(body)
            return self._with_references(_guessed_kind(text), text, [])
        return self._from_confluent(self._get_json(f"/subjects/{quote(subject, safe='')}/versions/{version}"))

    def _newest(self) -> str:
        return "/versions/branch=latest/content" if self._path.endswith("v3") else ""

    def _from_confluent(self, answer: Any, budget: list[int] | None = None) -> Schema:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise RegistryError(f"{self.shown} answered no schema")
        kind = answer.get("schemaType") or AVRO
        return self._with_references(str(kind), answer["schema"], answer.get("references") or [], budget)

    def _with_references(self, kind: str, text: str, listed: Any, budget: list[int] | None = None) -> Schema:
        """Return the schema with all that it needs. ``budget``: how many more schemas may be asked for."""
        left = budget if budget is not None else [REFERENCES_MAX]
        left[0] -= 1
        if left[0] < 0:
            raise RegistryError(f"it needs more than {REFERENCES_MAX} schemas, the limit")
        if kind not in (AVRO, PROTOBUF, JSON):
            raise RegistryError(
                f"{self.shown} has a schema of the type {printable(kind)[:_SHOWN_LENGTH]!r}, which is not known"
            )
        references: dict[str, Schema] = {}
        for name, subject, version in _references(listed):
            needed = self._from_confluent(
                self._get_json(f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"), left
            )
            references |= {**needed.references, name: needed}
        return Schema(kind, text, references)

    def _get_json(self, path: str) -> Any:
        _, body = self._get(path)
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RegistryError(f"{self.shown} answered no JSON: {error}") from None

    def _get(self, path: str) -> tuple[dict[str, str], bytes]:
        """Return the headers, in small letters, and the body of an answer. Raises RegistryError."""
        connection = self._connection()
        try:
            connection.request("GET", f"{self._path}{path}", headers=self._headers)
            with connection.getresponse() as answer:
                body = answer.read(SCHEMA_BYTES_MAX + 1)
                headers = {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, HTTPException, ValueError) as error:
            raise RegistryError(f"{self.shown} does not answer: {str(error) or type(error).__name__}") from None
        finally:
            connection.close()
        if len(body) > SCHEMA_BYTES_MAX:
            raise RegistryError(f"{self.shown} answered more than {SCHEMA_BYTES_MAX} bytes, the limit of a schema")
        if answer.status != HTTP_OK:
            said = printable(body[:_SHOWN_LENGTH].decode("utf-8", "replace"))
            kind = MissingSchemaError if answer.status == HTTP_NOT_FOUND else RegistryError
            raise kind(f"{self.shown} answered with status {answer.status}: {said}")
        return headers, body

    def _connection(self) -> HTTPConnection:
        if not self._is_tls:
            return HTTPConnection(self._host, self._port, timeout=FETCH_TIMEOUT_S)
        import ssl  # noqa: PLC0415 - plain registries do without

        context = ssl.create_default_context()
        return HTTPSConnection(self._host, self._port, timeout=FETCH_TIMEOUT_S, context=context)


def _references(listed: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (name, subject, version) of what a schema imports, in Confluent's words or Apicurio's."""
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            raise RegistryError("it lists references that are no objects")
        subject = one.get("subject") or one.get("artifactId")
        if not isinstance(one.get("name"), str) or not isinstance(subject, str):
            raise RegistryError("it lists a reference without a name or subject")
        yield one["name"], subject, str(one.get("version") or "latest")


def _drop_oldest(kept: dict[int | str, Any]) -> None:
    while len(kept) > SCHEMAS_MAX:
        del kept[next(iter(kept))]


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise RegistryError(f"the schema is no UTF-8 text: {error}") from None


def _guessed_kind(text: str) -> str:
    """Return what a schema is by its text, when the registry doesn't say it."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return PROTOBUF
    is_json_schema = isinstance(value, dict) and ("$schema" in value or "properties" in value)
    return JSON if is_json_schema or isinstance(value, bool) else AVRO


def _without_secret(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
