"""Tag expressions: ``TagA || TagB`` turned into the hash codes a consume queue entry is compared with."""

from __future__ import annotations

from functools import lru_cache

from pymq.model.javahash import tags_code

SUBSCRIBE_ALL = "*"
EXPRESSION_TAG = "TAG"


@lru_cache(maxsize=4096)
def tag_codes(expression: str | None) -> frozenset[int] | None:
    """The codes of the tags in an expression; None when everything matches (``*``, empty, missing)."""
    if expression is None or not expression.strip() or expression.strip() == SUBSCRIBE_ALL:
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    return frozenset(tags_code(tag) for tag in tags if tag)


def is_tag_type(expression_type: str | None) -> bool:
    """True when the expression is one of tags: the type is TAG or, from old clients, missing."""
    return not expression_type or expression_type == EXPRESSION_TAG
