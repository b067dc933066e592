"""Bodies for people: unpacked within limits, as a tree of JSON, as text in a charset, or as bytes in hex.

A body that can't be read as asked for is shown as it can be, with a note that says why.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pymq.client import StoredMessage
from pymq.errors import PymqError
from pymq.model.compression import InflatedSizeError, InflateError, decompress_body, inflated_begin
from pymq.operations.message.bodies import AUTO, MAGIC, BodyDecoder, Decoding

INFLATED_BYTES_MAX: Final = 8 * 1024 * 1024
SHOWN_BYTES: Final = 64 * 1024
SHOWN_BYTES_MAX: Final = 1024 * 1024
HEX_BYTES: Final = 4 * 1024
TREE_BYTES_MAX: Final = 256 * 1024
TREE_NODES_MAX: Final = 2_000
TREE_DEPTH_MAX: Final = 20
SCALAR_CHARACTERS_MAX: Final = 4_096
HEX_ROW_BYTES: Final = 16

JSON, TEXT, HEX, MSGPACK, SCHEMA = "json", "text", "hex", "msgpack", "schema"
VIEWS: Final = (AUTO, JSON, TEXT, HEX, MSGPACK, SCHEMA)
CHARSETS: Final = (
    *("utf-8", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "iso-8859-1", "windows-1252", "koi8-r"),
    *("utf-16-le", "utf-16-be"),
)


Decode = Callable[[bytes], bytes]


@dataclass(slots=True)
class Node:
    """One value of a JSON body. ``left_out``: the number of children that are not in ``children``."""

    name: str
    kind: str
    text: str
    children: list[Node] = field(default_factory=list)
    left_out: int = 0


@dataclass(slots=True)
class BodyView:
    """A body as it is shown. ``kind``: of :data:`VIEWS`; ``size_bytes``: of the whole body, None where unknown."""

    kind: str
    size_bytes: int | None
    shown_bytes: int
    text: str = ""
    tree: Node | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        """Whether more of the body is there than is shown."""
        return self.size_bytes is None or self.shown_bytes < self.size_bytes


@dataclass(frozen=True, slots=True)
class Content:
    """A body without compressions. ``is_whole``: nothing is missing at its end."""

    raw: bytes
    notes: list[str]
    is_whole: bool = True


def content_of(message: StoredMessage) -> Content:
    """Return the body as its producer wrote it, or as it is stored when it can't be inflated."""
    try:
        return Content(decompress_body(message.body, message.sys_flag, INFLATED_BYTES_MAX), [])
    except InflatedSizeError:
        begin = inflated_begin(message.body, message.sys_flag, SHOWN_BYTES_MAX)
        note = f"the body inflates beyond {INFLATED_BYTES_MAX:,} bytes: its first {len(begin):,} bytes are here"
        return Content(begin, [note], is_whole=False)
    except InflateError as error:
        return Content(message.body, [f"{error}. The bytes are shown as they are stored"])


def view_of(
    message: StoredMessage, view: str, charset: str, bytes_max: int | None, decode: Decode | None = None
) -> BodyView:
    """Return the body as ``view`` of :data:`VIEWS`, at most ``bytes_max`` of it; None: as many as fit the view.

    ``decode`` makes JSON of a body by the schema of its topic.
    """
    content = _unpacked(content_of(message))
    raw, notes = content.raw, list(content.notes)
    size_bytes = len(raw) if content.is_whole else None
    for kind, value in _values(raw, view, decode, notes, is_whole=content.is_whole):
        return BodyView(kind, size_bytes, len(raw), tree=_Tree().node("", value, 0), notes=notes)
    if view == HEX or (view != TEXT and not _is_text(raw, SHOWN_BYTES, charset)):
        shown = raw[: bytes_max or HEX_BYTES]
        return BodyView(HEX, size_bytes, len(shown), hex_rows(shown), notes=notes)
    limit = bytes_max or SHOWN_BYTES
    if not _is_text(raw, limit, charset):
        notes.append(f"not all of it is {charset}: bytes that are no text are shown as \ufffd")
    return BodyView(TEXT, size_bytes, min(limit, len(raw)), _begin(raw, limit, charset, "replace"), notes=notes)


def hex_rows(raw: bytes) -> str:
    """Return lines of an offset, bytes in hex, and their ASCII characters."""
    width = 3 * HEX_ROW_BYTES
    return "\n".join(
        f"{at:08x}  {row.hex(' '):<{width}} {''.join(chr(one) if 32 <= one < 127 else '.' for one in row)}"
        for at in range(0, len(raw), HEX_ROW_BYTES)
        for row in (raw[at : at + HEX_ROW_BYTES],)
    )


def _unpacked(content: Content) -> Content:
    """Return the content without the compressions that an application put on it."""
    kind = next((name for name, magic in MAGIC.items() if content.raw.startswith(magic)), None)
    if kind is None or not content.is_whole:
        return content
    try:
        raw = BodyDecoder(Decoding((AUTO,)), 0, INFLATED_BYTES_MAX).decode("", content.raw)
    except PymqError as error:
        return Content(content.raw, [*content.notes, f"it begins like {kind}, but: {error}"])
    return Content(raw, [*content.notes, f"it was unpacked from {kind}, which its producer put on it"])


def _values(
    raw: bytes, view: str, decode: Decode | None, notes: list[str], *, is_whole: bool
) -> Iterator[tuple[str, Any]]:
    """Yield what a body may be read as by a view, the likeliest first; ``notes`` hear why it can't."""
    decoders: dict[str, Callable[[bytes], Any]] = {}
    if decode is not None and view in (AUTO, SCHEMA):
        decoders[SCHEMA] = lambda body: msgspec.json.decode(decode(body))
    elif view == SCHEMA:
        notes.append("this console has no schema of this topic: pymq console --schemas FOLDER")
    if view == JSON or (view == AUTO and raw.lstrip()[:1] in (b"{", b"[")):
        decoders[JSON] = msgspec.json.decode
    if view == MSGPACK:
        decoders[MSGPACK] = msgspec.msgpack.decode
    if decoders and (not is_whole or len(raw) > TREE_BYTES_MAX):
        notes.append(f"a body of more than {TREE_BYTES_MAX:,} bytes is not shown as a tree")
        return
    for kind, read in decoders.items():
        try:
            value = read(raw)
        except (PymqError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            if view != AUTO or kind == SCHEMA:
                notes.append(f"it is no {_NAMES[kind]}: {error}")
        else:
            yield kind, value


_NAMES: Final = {JSON: "JSON", MSGPACK: "MessagePack", SCHEMA: "value of the topic's schema"}


def _begin(raw: bytes, size_bytes: int, charset: str, errors: str) -> str:
    """Return the begin of a body as text. A character that the cut divides is left out."""
    decoder = codecs.getincrementaldecoder(charset)(errors)
    return decoder.decode(raw[:size_bytes], final=len(raw) <= size_bytes)


def _is_text(raw: bytes, size_bytes: int, charset: str) -> bool:
    """Return whether the begin of a body is text without NUL."""
    try:
        return "\0" not in _begin(raw, size_bytes, charset, "strict")
    except UnicodeDecodeError:
        return False


class _Tree:
    """Makes nodes until there are enough."""

    def __init__(self) -> None:
        self._left = TREE_NODES_MAX

    def node(self, name: str, value: Any, depth: int) -> Node:
        self._left -= 1
        if isinstance(value, dict):
            members = [(str(key), each) for key, each in value.items()]
            return self._container(Node(name, "object", _count(len(members), "member")), members, depth)
        if isinstance(value, list | tuple):
            items = [(str(at), each) for at, each in enumerate(value)]
            return self._container(Node(name, "array", _count(len(items), "item")), items, depth)
        if isinstance(value, str):
            return Node(name, "string", _cut(value))
        if isinstance(value, bool) or value is None:
            return Node(name, "word", {True: "true", False: "false", None: "null"}[value])
        if isinstance(value, bytes):
            return Node(name, "bytes", _cut(value[:SCALAR_CHARACTERS_MAX].hex(" ")))
        return Node(name, "number", _cut(str(value)))

    def _container(self, node: Node, members: list[tuple[str, Any]], depth: int) -> Node:
        for name, value in members if depth < TREE_DEPTH_MAX else []:
            if self._left <= 0:
                break
            node.children.append(self.node(_cut(name), value, depth + 1))
        node.left_out = len(members) - len(node.children)
        return node


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cut(text: str) -> str:
    if len(text) <= SCALAR_CHARACTERS_MAX:
        return text
    return f"{text[:SCALAR_CHARACTERS_MAX]}\u2026 ({len(text):,} characters)"
