"""MessageFilter: which messages a pull takes, by the hash codes of tags in queue units or by whole records."""

from __future__ import annotations

import sys
from typing import NamedTuple

from pymq.model.javahash import tags_code
from pymq.model.sized_cache import SizedCache
from pymq.store.store import FILTER_STEP_COUNT, Accept, RecordPrefilter

SUBSCRIBE_ALL = "*"
EXPRESSION_TAG = "TAG"
TAG_FILTER_CACHE_BYTES = 4 * 1024 * 1024
TAG_CODE_BYTES = 100  # of one code in a set


class MessageFilter(NamedTuple):
    """Takes messages whose tags code is in ``codes`` (None: any) and whose record ``accept`` takes (None: all).

    ``prefilter`` finds beforehand records that ``accept`` can't take. ``size_bytes`` is about what the filter takes.
    ``step_count``: records that ``accept`` looks at between two looks at the time. Java:
    org.apache.rocketmq.store.MessageFilter.
    """

    codes: frozenset[int] | None = None
    accept: Accept | None = None
    prefilter: RecordPrefilter | None = None
    size_bytes: int = 0
    step_count: int = FILTER_STEP_COUNT


def tag_codes(expression: str | None) -> frozenset[int] | None:
    """Return the codes of the tags in an expression; None when everything matches (``*``, empty, missing)."""
    if expression is None or not expression.strip() or expression.strip() == SUBSCRIBE_ALL:
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    return frozenset(tags_code(tag) for tag in tags if tag)


def _make_tag_filter(expression: str | None) -> MessageFilter:
    codes = tag_codes(expression)
    return MessageFilter(codes, size_bytes=TAG_CODE_BYTES * len(codes or ()))


# tag_filter(expression) returns the filter of a tag expression.
tag_filter = SizedCache[str | None, MessageFilter](
    _make_tag_filter,
    lambda expression, made: sys.getsizeof(expression) + made.size_bytes,
    TAG_FILTER_CACHE_BYTES,
).__getitem__


def is_tag_type(expression_type: str | None) -> bool:
    """Return True for an expression of tags: its type is TAG or, from old clients, missing."""
    return not expression_type or expression_type == EXPRESSION_TAG
