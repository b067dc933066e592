"""Bodies of requests: whole, within a size and a time, and forms of simple fields."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from pymq.console.web.asgi import Receive, Scope, header_values
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.printable import printable

FORM_BYTES_MAX: Final = 64 * 1024
FORM_FIELDS_MAX: Final = 2000
BODY_TIMEOUT_S: Final = 10.0
NAME_SHOWN_BYTES: Final = 60
FORM_TYPE: Final = b"application/x-www-form-urlencoded"


class TooLarge(BadRequest):
    """A body is larger than its limit."""

    status = 413


class TooSlow(BadRequest):
    """A body did not come in time."""

    status = 408


async def read_body(receive: Receive, size_max_bytes: int, timeout_s: float = BODY_TIMEOUT_S) -> bytes:
    """Return the whole body. Raises TooLarge, TooSlow, and BadRequest when the browser went away."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise BadRequest("body", "the browser went away")
                size += len(message.get("body", b""))
                if size > size_max_bytes:
                    raise TooLarge("body", f"more than {size_max_bytes:,} bytes: send less")
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise TooSlow("body", f"it did not come within {timeout_s:g} s: send it again") from None


async def read_form(scope: Scope, receive: Receive, size_max_bytes: int = FORM_BYTES_MAX) -> Parameters:
    """Return the fields of a form. Raises BadRequest for another type of body, and as :func:`read_body`."""
    kinds = header_values(scope, b"content-type")
    if len(kinds) != 1 or kinds[0].split(b";")[0].strip().lower() != FORM_TYPE:
        raise BadRequest("body", f"send a form as {FORM_TYPE.decode()}")
    return parse_form(await read_body(receive, size_max_bytes))


def _first_bad_name(body: bytes) -> str:
    """Return the name of the first field that is no text."""
    for field in body.split(b"&"):
        try:
            parse_qsl(field.decode("ascii"), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            name = unquote_to_bytes(field.partition(b"=")[0])[:NAME_SHOWN_BYTES]
            return printable(name.decode("ascii", "replace")) or "request"
    return "request"


def parse_form(body: bytes) -> Parameters:
    """Return the fields in a form's text or a query. Raises BadRequest for too many, and for text that isn't UTF-8."""
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS_MAX
        )
    except UnicodeDecodeError:
        raise BadRequest(_first_bad_name(body), "it is not UTF-8, or not encoded for a URL") from None
    except ValueError:
        raise BadRequest("request", f"more than {FORM_FIELDS_MAX:,} fields: send fewer") from None
    return Parameters(fields)
