"""kombu's messages as messages of a topic, and back: JSON with the body as text, or as base64 when it is binary."""

from __future__ import annotations

import binascii
import re
import time
from base64 import b64decode
from datetime import datetime
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from pymq.client import Message
from pymq.errors import PymqError
from pymq.model.record import StoredMessage

_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,120}\Z")


def to_message(topic: str, payload: dict[str, Any], tag: str = "") -> Message:
    """Return a message to send. Its key is the task's id, and its tag the task's name unless one is given."""
    headers = payload.get("headers") or {}
    task, task_id = headers.get("task"), headers.get("id")
    return Message(
        topic,
        dumps(payload),
        tags=tag or (task if isinstance(task, str) and _WORD.match(task) else ""),
        keys=task_id if isinstance(task_id, str) and _WORD.match(task_id) else "",
    )


def to_payload(message: StoredMessage, delivery_tag: str) -> dict[str, Any]:
    """Return kombu's form of a stored message. Raises ValueError for a body that is none, saying why."""
    try:
        payload = loads(bytes_to_str(message.content()))
    except (ValueError, RecursionError, PymqError) as error:
        raise ValueError(f"its body is no JSON text: {error}") from error
    except Exception as error:  # kombu's JSON has types, whose constructors raise what they like
        raise ValueError(f"its body can't be decoded: {error!r}") from error
    if not isinstance(payload, dict) or not isinstance(payload.get("properties"), dict):
        raise ValueError("its body is no JSON object with properties")
    properties = payload["properties"]
    info = properties.setdefault("delivery_info", {})
    if not isinstance(payload.get("headers") or {}, dict) or not isinstance(info, dict):
        raise ValueError("its headers or its delivery_info are no JSON objects")
    _check_body(payload.get("body"), properties.get("body_encoding"))
    properties["delivery_tag"] = delivery_tag
    info["redelivered"] = message.reconsume_times > 0
    return payload


def eta_ms(payload: dict[str, Any]) -> int | None:
    """Return when a task is due, as Unix time; None for a task without ETA, or with one that has no time zone."""
    eta = (payload.get("headers") or {}).get("eta")
    if isinstance(eta, str):
        try:
            eta = datetime.fromisoformat(eta)
        except ValueError:
            return None
    if not isinstance(eta, datetime) or eta.tzinfo is None:
        return None
    return int(eta.timestamp() * 1000)


def now_ms() -> int:
    """Return this host's Unix time, by which Celery judges an ETA."""
    return time.time_ns() // 1_000_000


def _check_body(body: Any, encoding: Any) -> None:
    if body is not None and not isinstance(body, str):
        raise ValueError("its inner body is no text")
    if encoding == "base64":
        try:
            b64decode(body or "", validate=True)
        except binascii.Error as error:
            raise ValueError(f"its inner body is no base64: {error}") from error
    elif encoding not in (None, "utf-8"):
        raise ValueError(f"its inner body has the unknown encoding {encoding!r}")
