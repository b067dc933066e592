"""A message as a filter sees it: its place and properties at once, its body inflated when a filter asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pymq.errors import FilterError
from pymq.model.compression import InflateError
from pymq.model.properties import KEYS, TAGS, decode_properties, encode_properties

if TYPE_CHECKING:
    from pymq.model.record import StoredMessage


class BodyBudget:
    """The number of body bytes that the filters of one batch may still inflate and hold."""

    __slots__ = ("left_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.left_bytes = limit_bytes

    def take(self, size_bytes: int) -> None:
        """Use up ``size_bytes``. Raises FilterError when the batch's bodies exceed the limit."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise FilterError(f"the bodies of one batch exceed {self.limit_bytes} bytes: pull fewer messages at a time")


class FilterMessage:
    """One message for a filter. Absent texts are empty; times are Unix ms."""

    __slots__ = (
        "_body",
        "_load_body",
        "_properties",
        "_raw_properties",
        "broker_name",
        "budget",
        "queue_id",
        "queue_offset",
        "store_timestamp_ms",
        "topic",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        broker_name: str = "",
        queue_id: int = 0,
        queue_offset: int = 0,
        store_timestamp_ms: int = 0,
        properties: Mapping[str, str] | bytes = b"",
        body: bytes | Callable[[], bytes] = b"",
    ) -> None:
        """``properties`` is a mapping or the stored bytes.

        ``body`` is bytes, or a function that returns them and may raise InflateError.
        """
        self.topic = topic
        self.broker_name = broker_name
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.store_timestamp_ms = store_timestamp_ms
        self.budget: BodyBudget | None = None
        stored = isinstance(properties, bytes)
        self._raw_properties: bytes | None = properties if stored else None  # type: ignore[assignment]
        self._properties: Mapping[str, str] | None = None if stored else properties  # type: ignore[assignment]
        self._body: bytes | None = body if isinstance(body, bytes) else None
        self._load_body: Callable[[], bytes] | None = None if isinstance(body, bytes) else body

    @property
    def properties(self) -> Mapping[str, str]:
        if self._properties is None:
            self._properties = decode_properties(self._raw_properties or b"")
        return self._properties

    @property
    def raw_properties(self) -> bytes:
        """The properties in their stored form."""
        if self._raw_properties is None:
            self._raw_properties = encode_properties(self._properties or {})
        return self._raw_properties

    @property
    def tags(self) -> str:
        return self.properties.get(TAGS, "")

    @property
    def keys(self) -> str:
        return self.properties.get(KEYS, "")

    @property
    def body(self) -> bytes:
        """The body as its producer wrote it.

        Raises FilterError when it can't be inflated, or when the budget is used up.
        """
        if self._body is None:
            assert self._load_body is not None
            try:
                self._body = self._load_body()
            except InflateError as error:
                raise FilterError(f"the body can't be read: {error}") from error
            if self.budget is not None:
                self.budget.take(len(self._body))
        return self._body


def of_stored(message: StoredMessage) -> FilterMessage:
    """Return a pulled message as filters see it."""
    return FilterMessage(
        topic=message.topic,
        broker_name=message.broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        store_timestamp_ms=message.store_timestamp_ms,
        properties=message.raw_properties,
        body=message.content,
    )
