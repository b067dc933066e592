"""Message bodies as JSON, for filters that read them."""

from __future__ import annotations

from typing import Any

import msgspec

from pymq.errors import FilterError
from pymq.filter.messages import FilterMessage

JSON_BODY_MAX_BYTES = 1024 * 1024


def json_body(message: FilterMessage) -> Any:
    """Return the body's value. Raises FilterError for a body that is not JSON, too large, or nested too deeply."""
    body = message.body
    if len(body) > JSON_BODY_MAX_BYTES:
        raise FilterError(f"the body has {len(body)} bytes, filters read JSON up to {JSON_BODY_MAX_BYTES}")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FilterError(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise FilterError("the body is nested too deeply to be read as JSON") from error


def node_count_max(body: bytes) -> int:
    """Return an upper bound of the number of values in a JSON text, without parsing it."""
    return body.count(b",") + body.count(b"[") + body.count(b"{") + 1
