"""Bodies, tags, keys and properties of messages as fields of a form, and back.

A browser carries text alone, and writes each end of a line as CR LF. So a form shows what comes back as it was. What
would not, and what is too long, is not in the form, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote_plus

from pymq.console.changes.fields import Field, Input
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UsageError
from pymq.model.message import Message
from pymq.model.properties import RESERVED
from pymq.printable import printable

# As a form of 64 KiB carries them: encoded, where most characters of JSON take three bytes.
BODY_ENCODED_BYTES_MAX: Final = 44 * 1024
PROPERTIES_ENCODED_BYTES_MAX: Final = 8 * 1024
LABEL_ENCODED_BYTES_MAX: Final = 2 * 1024
BODY_LENGTH_MAX: Final = 64 * 1024
PROPERTIES_LENGTH_MAX: Final = 8 * 1024
LABEL_LENGTH_MAX: Final = 2 * 1024

BODY, TAG, KEYS, PROPERTIES = "body", "tag", "keys", "properties"


def fields_of(message: Message) -> tuple[list[Field], list[str]]:
    """Return the fields that a form shows of a message, and the names of the parts that no form can carry."""
    texts = {
        TAG: message.tags if _is_carried(message.tags, LABEL_ENCODED_BYTES_MAX) else None,
        KEYS: message.keys if _is_carried(message.keys, LABEL_ENCODED_BYTES_MAX) else None,
        PROPERTIES: _shown_properties(message.properties),
        BODY: shown_body(message.body),
    }
    fields = [_field(name, text) for name, text in texts.items() if text is not None]
    return fields, [name for name, text in texts.items() if text is None]


def empty_fields() -> list[Field]:
    """Return the fields of a new message."""
    return [_field(name, "") for name in (TAG, KEYS, PROPERTIES, BODY)]


def shown_body(body: bytes) -> str | None:
    """Return a body as the text that a form shows; None where a form would not bring it back."""
    if len(body) > BODY_ENCODED_BYTES_MAX:
        return None
    try:
        text = _with_plain_ends(body.decode())
    except UnicodeDecodeError:
        return None
    parts = (part for line in text.split("\n") for part in line.split("\t"))
    if not all(part.isprintable() for part in parts) or _encoded_bytes(text) > BODY_ENCODED_BYTES_MAX:
        return None
    return text


def read_body(given: Parameters, before: bytes | None = None) -> bytes:
    """Return the body of a form. One that is as it was shown is the one ``before``, byte by byte. Raises BadRequest."""
    text = _with_plain_ends(given.text(BODY, length_max=BODY_LENGTH_MAX))
    if before is not None and text == shown_body(before):
        return before
    if not text:
        raise BadRequest(BODY, "it is empty, which brokers refuse: write at least one character")
    return text.encode()


def read_properties(given: Parameters) -> dict[str, str]:
    """Return the properties of a form, a line each as ``NAME=VALUE``. Raises BadRequest."""
    text = _with_plain_ends(given.text(PROPERTIES, "", length_max=PROPERTIES_LENGTH_MAX))
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise BadRequest(PROPERTIES, f"{printable(line[:60])!r} is no NAME=VALUE")
        if name in RESERVED:
            raise BadRequest(PROPERTIES, f"{name} is reserved by RocketMQ: use another name")
        if name in found:
            raise BadRequest(PROPERTIES, f"{printable(name[:60])!r} is there twice")
        found[name] = value
    return found


def read_label(given: Parameters, name: str) -> str:
    """Return the tag or the keys of a form. Raises BadRequest."""
    text = given.text(name, "", length_max=LABEL_LENGTH_MAX)
    return text if text.strip() else ""


def edited(message: Message, given: Parameters) -> Message:
    """Return the message with what a form says; fields that are not in the form stay. Raises BadRequest."""
    try:
        return Message(
            message.topic,
            read_body(given, message.body) if given.has(BODY) else message.body,
            tags=read_label(given, TAG) if given.has(TAG) else message.tags,
            keys=read_label(given, KEYS) if given.has(KEYS) else message.keys,
            properties=read_properties(given) if given.has(PROPERTIES) else message.properties,
            flag=message.flag,
        )
    except UsageError as error:
        raise BadRequest("message", str(error)) from None


def _field(name: str, text: str) -> Field:
    if name == BODY:
        return Field(name, "Body", Input.area, text, is_required=True, length_max=BODY_LENGTH_MAX)
    if name == PROPERTIES:
        return Field(name, "Properties", Input.area, text, "NAME=VALUE, a line each", length_max=PROPERTIES_LENGTH_MAX)
    hint = "none" if name == TAG else "none; several with blanks between them"
    return Field(name, name.capitalize(), value=text, hint=hint, length_max=LABEL_LENGTH_MAX)


def _shown_properties(properties: Mapping[str, str]) -> str | None:
    """Return properties as lines; None where lines would not mean the same."""
    is_whole = all(
        name.strip() and "=" not in name and f"{name}{value}".isprintable() for name, value in properties.items()
    )
    text = "\n".join(f"{name}={value}" for name, value in properties.items())
    return text if is_whole and _encoded_bytes(text) <= PROPERTIES_ENCODED_BYTES_MAX else None


def _is_carried(text: str, encoded_bytes_max: int) -> bool:
    """Return whether a field of one line brings a text back as it is."""
    return (not text or bool(text.strip())) and text.isprintable() and _encoded_bytes(text) <= encoded_bytes_max


def _encoded_bytes(text: str) -> int:
    return len(quote_plus(text.replace("\n", "\r\n")))


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n")
