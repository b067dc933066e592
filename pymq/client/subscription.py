"""What a consumer wants of a topic: a tag expression, and the exact check behind the broker's hash check."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.errors import UsageError
from pymq.model.javahash import string_hash

EVERYTHING = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(slots=True)
class Subscription:
    """A topic and its expression. ``version`` (Unix ms) grows whenever the broker must look at it again."""

    topic: str
    expression: str
    tags: frozenset[str]
    version: int
    expression_type: str = TAG

    @property
    def tag_codes(self) -> list[int]:
        """Java hashes of the tags, as the broker compares them."""
        return [string_hash(tag) for tag in sorted(self.tags)]

    def accepts(self, tag: str) -> bool:
        """True when a message with ``tag`` (may be empty) is wanted. SQL was decided by the broker."""
        return not self.tags or tag in self.tags


def parse_subscription(topic: str, expression: str | None, version: int, expression_type: str = TAG) -> Subscription:
    """``"TagA || TagB"`` -> the two tags; ``*``, empty and None mean everything. Raises UsageError for ``||`` alone."""
    text = (expression or "").strip() or EVERYTHING
    if expression_type != TAG:
        return Subscription(topic, text, frozenset(), version, expression_type)
    if text == EVERYTHING:
        return Subscription(topic, EVERYTHING, frozenset(), version)
    tags = frozenset(part.strip() for part in text.split("||")) - {""}
    if not tags:
        raise UsageError(f"{expression!r} names no tag: write TagA || TagB, or * for everything")
    if EVERYTHING in tags:
        return Subscription(topic, EVERYTHING, frozenset(), version)
    return Subscription(topic, " || ".join(sorted(tags)), tags, version)
