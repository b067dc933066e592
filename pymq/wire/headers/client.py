"""Headers about clients and groups of clients: codes 35, 38, 40 and the heartbeat's answer."""

from __future__ import annotations

from pymq.wire.header import Header


class UnregisterClientHeader(
    Header,
    kw_only=True,
    frozen=True,
    rename={"client_id": "clientID", "producer_group": "producerGroup", "consumer_group": "consumerGroup"},
):
    """UNREGISTER_CLIENT (35)."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header, kw_only=True, frozen=True):
    """GET_CONSUMER_LIST_BY_GROUP (38) and NOTIFY_CONSUMER_IDS_CHANGED (40)."""

    consumer_group: str
