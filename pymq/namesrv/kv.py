"""KvConfig: small settings shared through the name server, by namespace and key. In memory only, lost at restart."""

from __future__ import annotations

from pymq.errors import Refusal
from pymq.wire.codes import ResponseCode

# Java keeps the order of a topic's queues here, in the form brokerA:4;brokerB:8.
ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"

NAME_LENGTH_MAX = 255
VALUE_LENGTH_MAX = 65_536


class KvConfig:
    """namespace -> key -> value, all text."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def put(self, namespace: str, key: str, value: str, *, count_max: int) -> None:
        """Set one value. Raises Refusal when a name or value is too long, or when there are ``count_max`` values."""
        for what, text in (("namespace", namespace), ("key", key)):
            if not text or len(text) > NAME_LENGTH_MAX or not text.isprintable():
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER, f"the {what} needs 1 to {NAME_LENGTH_MAX} printable characters"
                )
        if len(value) > VALUE_LENGTH_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the value has {len(value)} characters, the limit is {VALUE_LENGTH_MAX}: shorten it",
            )
        if self.get(namespace, key) is None and len(self) >= count_max:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the name server holds {count_max} values, its limit: delete some, or raise maxKvEntries",
            )
        self._tables.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete a value; do nothing when there is none."""
        table = self._tables.get(namespace)
        if table is not None:
            table.pop(key, None)
            if not table:
                del self._tables[namespace]

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all values of a namespace; None when there is none."""
        table = self._tables.get(namespace)
        return dict(table) if table is not None else None
