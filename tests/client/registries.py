"""Schema registries for tests: Confluent's API and Apicurio's, with the answers that their documentation shows."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

ORDER_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "double"}],
    }
)
ORDER_PROTO = """syntax = "proto3";
package shop;
message Order { int64 id = 1; Line line = 2; message Line { string what = 1; } }
message Refund { int64 order = 1; }
"""
ORDER_JSON = json.dumps(
    {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"id": {"type": "integer"}}}
)


class Registry:
    """A server on a free port. ``schemas``: id -> (type, text, references); ``subjects``: (subject, version) -> id."""

    def __init__(self) -> None:
        self.schemas: dict[int, tuple[str, str, list[dict[str, Any]]]] = {}
        self.subjects: dict[tuple[str, str], int] = {}
        self.asked: list[str] = []
        self.authorizations: list[str] = []
        self.raw: tuple[int, bytes] | None = None  # answers everything in place of a schema
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.authorizations.append(self.headers.get("Authorization") or "")
                status, headers, body = registry.answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.place}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def put(
        self, schema_id: int, kind: str, text: str, subject: str = "", references: list[dict[str, Any]] | None = None
    ) -> None:
        self.schemas[schema_id] = kind, text, references or []
        if subject:
            self.subjects[subject, "1"] = self.subjects[subject, "latest"] = schema_id

    def answer(self, target: str) -> tuple[int, dict[str, str], bytes]:
        if self.raw is not None:
            return self.raw[0], {}, self.raw[1]
        parts = [unquote(part) for part in urlsplit(target).path.strip("/").split("/")]
        if parts[:1] == ["apis"]:
            return self._apicurio(parts[3:])
        if parts[:2] == ["schemas", "ids"]:
            return self._schema(int(parts[2]))
        if parts[0] == "subjects" and (parts[1], parts[3]) in self.subjects:
            return self._schema(self.subjects[parts[1], parts[3]])
        return self._missing(40401, "Subject not found.")

    def _schema(self, schema_id: int) -> tuple[int, dict[str, str], bytes]:
        if schema_id not in self.schemas:
            return self._missing(40403, "Schema not found")
        kind, text, references = self.schemas[schema_id]
        answer: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            answer["schemaType"] = kind  # Confluent leaves Avro's out
        if references:
            answer["references"] = references
        return 200, {"Content-Type": "application/vnd.schemaregistry.v1+json"}, json.dumps(answer).encode()

    def _apicurio(self, parts: list[str]) -> tuple[int, dict[str, str], bytes]:
        if parts[:2] == ["ids", "globalIds"] and int(parts[2]) in self.schemas:
            kind, text, references = self.schemas[int(parts[2])]
            if parts[3:] == ["references"]:
                return 200, {}, json.dumps(references).encode()
            return 200, {"X-Registry-ArtifactType": kind}, text.encode()
        if parts[:3] == ["groups", "default", "artifacts"] and (parts[3], "latest") in self.subjects:
            return 200, {}, self.schemas[self.subjects[parts[3], "latest"]][1].encode()
        return self._missing(404, "No artifact was found.")

    @staticmethod
    def _missing(code: int, message: str) -> tuple[int, dict[str, str], bytes]:
        return 404, {}, json.dumps({"error_code": code, "message": message}).encode()


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return a body as a registry's serializer writes it."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload
