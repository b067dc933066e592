"""Draft: a message on its way into the store, before it has a place there."""

from __future__ import annotations

import msgspec


class Draft(msgspec.Struct, gc=False):
    """What a record says besides its place, its queue and its store time.

    The sender of a message gives all fields but ``tags_code`` and ``keyed``. Who stages a draft may change the draft,
    so each draft is staged once.

    * ``body`` is stored as it is, and must not change until the commit.
    * ``properties``: encoded; each ends with a separator.
    * ``born_timestamp_ms``: Unix ms. ``born_host``: 4 or 16 address bytes and a 32-bit port.
    * ``tags_code``: the hash in the queue unit, or the due time (Unix ms) of a delayed message. The broker's Writer
      fills it; a caller of the store fills it itself.
    * ``keyed``: those of the ``properties`` that may be keys. The fast paths fill it for
      :class:`~pymq.store.write.plain_stager.PlainStager`; the store's other ways look at all properties.
    * ``lite_topic``: the lite topic in whose light queue the message is; empty for none. The topic is its parent. Who
      stages the draft adds the properties that say so (:mod:`pymq.model.lite_topics`).
    * ``prepared_transaction_offset``: physical offset of the half message that a committed message had.
    """

    body: bytes | memoryview
    properties: bytes
    born_timestamp_ms: int
    born_host: bytes
    tags_code: int = 0
    flag: int = 0
    sys_flag: int = 0
    keyed: bytes = b""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    lite_topic: str = ""
