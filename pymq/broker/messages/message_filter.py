"""MessageFilter: which messages a pull takes, by the hash codes of tags in queue units or by whole records."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pymq.model.javahash import tags_code
from pymq.store.store import Accept, RecordPrefilter

SUBSCRIBE_ALL = "*"
EXPRESSION_TAG = "TAG"


class MessageFilter(NamedTuple):
    """Takes messages whose tags code is in ``codes`` (None: any) and whose record ``accept`` takes (None: all).

    ``prefilter`` finds beforehand records that ``accept`` can't take. Java: org.apache.rocketmq.store.MessageFilter.
    """

    codes: frozenset[int] | None = None
    accept: Accept | None = None
    prefilter: RecordPrefilter | None = None


@lru_cache(maxsize=4096)
def tag_codes(expression: str | None) -> frozenset[int] | None:
    """Return the codes of the tags in an expression; None when everything matches (``*``, empty, missing)."""
    if expression is None or not expression.strip() or expression.strip() == SUBSCRIBE_ALL:
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    return frozenset(tags_code(tag) for tag in tags if tag)


@lru_cache(maxsize=4096)
def tag_filter(expression: str | None) -> MessageFilter:
    """Return the filter of a tag expression."""
    return MessageFilter(tag_codes(expression))


def is_tag_type(expression_type: str | None) -> bool:
    """Return True for an expression of tags: its type is TAG or, from old clients, missing."""
    return not expression_type or expression_type == EXPRESSION_TAG
