"""What a subscription selects, as one short text: two subscriptions with the same text select the same messages."""

from __future__ import annotations

from zlib import crc32

TAG = "TAG"
EVERYTHING = "*"
NOT_SUBSCRIBED = "-"  # stands for a member without a subscription to a topic that others have
TEXT_LENGTH_MAX = 80
_HEAD_LENGTH = 48


def selection_text(expression_type: str | None, expression: str | None, *, is_class_filter: bool = False) -> str:
    """Return ``A || B`` for tags in any order, ``*`` for everything, ``SQL92: a > 5`` for other types.

    A long expression is shortened; the text then ends with the expression's length and checksum.
    """
    kind, text = expression_type or TAG, (expression or "").strip()
    if is_class_filter:
        kind = "class filter"
    if kind == TAG:
        tags = {tag for part in text.split("||") if (tag := part.strip())}
        text = EVERYTHING if not tags or EVERYTHING in tags else " || ".join(sorted(tags))
    else:
        text = f"{kind}: {text}"
    if len(text) <= TEXT_LENGTH_MAX:
        return text
    checksum = crc32(text.encode("utf-8", "surrogatepass"))
    return f"{text[:_HEAD_LENGTH]}… ({len(text)} characters, {checksum:08x})"
