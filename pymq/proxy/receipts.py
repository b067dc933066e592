"""Receipt handles, and the messages that clients hold: the proxy renews the receipts of listeners that take long.

A handle names its message completely, so any proxy of a cluster can settle it. Pure logic: times come in as arguments.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pymq.model import pop
from pymq.model.lite_topics import lite_name_problem
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal

HANDLE_PARTS = 9
AUTO_RENEW_INVISIBLE_MS = 60_000  # of a receive whose messages the proxy renews
RENEW_AHEAD_MS = 10_000  # a receipt is renewed so long before its end
RENEW_STEPS_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
HELD_MS_MAX = 3 * 3600 * 1000  # from its delivery on, a message is held so long at most
HELD_PER_CLIENT_MAX = 4096  # further messages of a client are not renewed


_PLAIN = re.compile("([0-9]{1,18}) " * 5 + "([^ ]*) ([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18})")


class Handle(NamedTuple):
    """What a receipt handle says. ``offset`` is the message's in its queue, ``log_offset`` that in the log.

    ``lite``: the lite topic in which the message was received; ``offset`` is that in its light queue then.
    """

    receipt: pop.Receipt
    queue_id: int
    offset: int
    log_offset: int
    lite: str = ""

    @property
    def end_ms(self) -> int:
        """The Unix time, of the broker's clock, at which the message may come again."""
        return self.receipt.pop_time_ms + self.receipt.invisible_ms

    def topic(self, group: str, topic: str) -> str:
        """Return the topic in which the message is stored: that of a group's retries perhaps."""
        return pop.stored_topic(self.receipt.retry_flag, group, topic)

    @property
    def extra_info(self) -> str:
        """The handle as the broker knows it."""
        return pop.encode_receipt(self.receipt, self.queue_id, self.offset)


def encode_handle(handle: Handle) -> str:
    """Return the text that clients get."""
    text = f"{handle.extra_info} {handle.log_offset}"
    return f"{text} {urlsafe_b64encode(handle.lite.encode()).decode()}" if handle.lite else text


def decode_handle(text: str) -> Handle:
    """Return what a handle says. Raises ProxyRefusal for a text that no proxy gave out."""
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        return decode_odd_handle(text)
    start, popped, invisible, revive, flag, broker, queue_id, offset, log_offset = plain.groups()
    receipt = pop.Receipt(int(start), int(popped), int(invisible), int(revive), int(flag), broker)
    return Handle(receipt, int(queue_id), int(offset), int(log_offset))


def decode_odd_handle(text: str) -> Handle:
    """Do as :func:`decode_handle`, also for negative and longer numbers; it finds what is wrong with a text."""
    parts = text.split(" ")
    try:
        lite = _lite_of(parts.pop()) if len(parts) == HANDLE_PARTS + 1 else ""
        if len(parts) != HANDLE_PARTS:
            raise ValueError(f"the receipt handle has {len(parts)} parts, not {HANDLE_PARTS}")
        numbers = [int(part) for part in parts[6:] if part.isascii() and part.isdigit() and len(part) < 19]
        queue_id, offset, log_offset = numbers
        return Handle(pop.decode_receipt(text), queue_id, offset, log_offset, lite)
    except ValueError as error:
        raise ProxyRefusal(Code.INTERNAL_SERVER_ERROR, f"this is no receipt handle: {error}") from error


def _lite_of(part: str) -> str:
    """Return the lite topic in a handle. Raises ValueError."""
    lite = urlsafe_b64decode(part.encode("ascii")).decode()
    problem = lite_name_problem(lite)
    if problem is not None:
        raise ValueError(problem)
    return lite


def check_in_time(handle: Handle, now_ms: int) -> Handle:
    """Return the handle. Raises ProxyRefusal when its time is over."""
    if now_ms >= handle.end_ms:
        # It begins as RocketMQ's proxy 5.3.3 says it: programs compare the text.
        text = f"receipt handle is expired: its time is over for {now_ms - handle.end_ms} ms, the message comes again"
        raise ProxyRefusal(Code.INVALID_RECEIPT_HANDLE, text)
    return handle


def prolonged(handle: Handle, now_ms: int, invisible_ms: int) -> Handle:
    """Return a handle of the same message and delivery that ends ``invisible_ms`` from now."""
    end_ms = now_ms + invisible_ms
    return handle._replace(receipt=handle.receipt._replace(invisible_ms=end_ms - handle.receipt.pop_time_ms))


@dataclass(slots=True)
class Held:
    """A message that a client holds. ``given`` is the handle that it got, ``current`` the one that is valid now."""

    client_id: str
    group: str
    topic: str
    given: str
    current: Handle
    since_ms: int
    renewed_count: int = 0
    is_renewing: bool = False

    @property
    def renew_at_ms(self) -> int:
        """The time at which to renew it."""
        return self.current.end_ms - RENEW_AHEAD_MS

    @property
    def step_ms(self) -> int:
        """The invisible time of the next renewal."""
        return RENEW_STEPS_MS[min(self.renewed_count, len(RENEW_STEPS_MS) - 1)]


class HeldMessages:
    """The messages whose receipts the proxy renews, by client, and by the group and the handle that was given out."""

    def __init__(self) -> None:
        self._by_client: dict[str, dict[tuple[str, str], Held]] = {}
        self._by_handle: dict[tuple[str, str], Held] = {}

    def __len__(self) -> int:
        return len(self._by_handle)

    def hold(self, client_id: str, group: str, topic: str, handle: Handle, now_ms: int) -> bool:
        """Note a message that a client got. Return False when the client holds too many to renew this one."""
        mine = self._by_client.setdefault(client_id, {})
        if len(mine) >= HELD_PER_CLIENT_MAX:
            return False
        given = encode_handle(handle)
        held = Held(client_id, group, topic, given, handle, now_ms)
        mine[group, given] = self._by_handle[group, given] = held
        return True

    def find(self, group: str, given: str) -> Held | None:
        """Return the message of a handle; None for one that is not renewed."""
        return self._by_handle.get((group, given))

    def release(self, group: str, given: str) -> Held | None:
        """Forget a message that is settled, and return it."""
        held = self._by_handle.pop((group, given), None)
        if held is not None:
            mine = self._by_client[held.client_id]
            del mine[group, given]
            if not mine:
                del self._by_client[held.client_id]
        return held

    def release_client(self, client_id: str) -> list[Held]:
        """Forget what a client holds, and return it: the client has left."""
        return [held for key in list(self._by_client.get(client_id, ())) if (held := self.release(*key)) is not None]

    def due(self, now_ms: int) -> Iterable[Held]:
        """Yield the messages to renew now, and forget messages that were held for too long or whose time is over."""
        for held in list(self._by_handle.values()):
            if held.is_renewing or now_ms < held.renew_at_ms:
                continue
            if now_ms >= held.current.end_ms or now_ms - held.since_ms >= HELD_MS_MAX:
                self.release(held.group, held.given)
                continue
            held.is_renewing = True
            yield held

    def renewed(self, held: Held, handle: Handle) -> bool:
        """Note the new handle of a message. Return False when the client settled it or left meanwhile."""
        held.current, held.is_renewing = handle, False
        held.renewed_count += 1
        return self.find(held.group, held.given) is held

    def not_renewed(self, held: Held) -> None:
        """Note that a renewal failed: it is tried again until the message's time is over."""
        held.is_renewing = False
