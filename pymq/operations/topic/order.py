"""A topic's order configuration: the queues of a topic in a fixed order, the same for every producer."""

from __future__ import annotations

import re
from typing import Any

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, PymqError, UsageError

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
_ORDER_PART = re.compile(r"([%|a-zA-Z0-9_-]{1,127}):([0-9]{1,5})")


async def order(
    admin: Admin, topic: str, wanted: str | None, *, delete: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Set, delete or only read a topic's order configuration.

    Returns a record for each broker of it, and the name servers that don't tell producers. Raises UsageError,
    NotFoundError, PartialError.
    """
    if wanted is not None:
        shares = parse_order(wanted)
        route = await admin.topics.route(topic)  # raises NotFoundError
        have = {share.broker_name: share.write_queue_nums for share in route.queue_datas}
        for broker, count in shares:
            if broker not in have:
                raise NotFoundError(f"{topic} is not on {broker!r}: it is on {', '.join(sorted(have))}")
            if count > have[broker]:
                raise UsageError(f"{topic} has {have[broker]} write queues on {broker}, fewer than {count}")
        text = ";".join(f"{broker}:{count}" for broker, count in shares)
        await admin.namesrv.put_value(ORDER_NAMESPACE, topic, text)
    elif delete:
        await admin.namesrv.delete_value(ORDER_NAMESPACE, topic)
    value = await admin.namesrv.value(ORDER_NAMESPACE, topic)
    records = [{"broker": broker, "queues": count} for broker, count in (parse_order(value) if value else [])]
    configs = await admin.namesrv.configs()
    silent = [
        address
        for address, config in configs.items()
        if not isinstance(config, PymqError) and config.get("orderMessageEnable") != "true"
    ]
    return records, silent


def parse_order(text: str) -> list[tuple[str, int]]:
    """Return brokers and their numbers of queues of a text such as ``broker-a:4;broker-b:8``. Raises UsageError."""
    shares = []
    for part in filter(None, text.split(";")):
        match = _ORDER_PART.fullmatch(part.strip())
        if match is None or not int(match.group(2)):
            raise UsageError(f"{part!r} is no part of an order configuration: write BROKER:N, parts separated by ';'")
        shares.append((match.group(1), int(match.group(2))))
    if not shares or len({broker for broker, _ in shares}) < len(shares):
        raise UsageError(f"{text!r} needs each broker once: write for example 'broker-a:4;broker-b:8'")
    return shares
