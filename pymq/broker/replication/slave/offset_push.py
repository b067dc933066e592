"""OffsetPush: sends offsets that were committed on a slave to its master, which may be a RocketMQ broker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pymq.broker.metadata.pending_offsets import PendingOffset, PendingOffsets
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.offset import UpdateConsumerOffsetHeader
from pymq.wire.streams import Network

log = logging.getLogger(__name__)

ASKED_AT_ONCE = 64
ASK_TIMEOUT_MS = 3000
# The master's answer is final: the topic is gone, it can't create the group, or the offset is not possible.
_FINAL = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.INVALID_PARAMETER,
    }
)

# Gets the reason of an early end; empty when all offsets were sent.
Done = Callable[[str], None]


class OffsetPush:
    """Sends the offsets that are pending when a round starts. An offset stays pending until the master has answered."""

    def __init__(self, network: Network, pending: PendingOffsets, on_difference: Callable[[], None]) -> None:
        """``on_difference`` runs when the master's offset is not the one that was sent: the slave's is wrong then."""
        self._network = network
        self._pending = pending
        self._waiting: list[PendingOffset] = []
        self._asked_count = 0
        self._problem = ""
        self._is_apache = False
        self._unmet: set[str] = set()  # groups that a RocketMQ master does not know yet, and that were logged
        self._dropped_count = 0
        self._first_dropped = ""
        self._is_closed = False
        self._on_difference = on_difference

    @property
    def has_work(self) -> bool:
        """True while offsets are pending."""
        return bool(len(self._pending))

    def start(self, address: str, done: Done, *, is_apache: bool = False) -> None:
        """Send all pending offsets to ``address``. ``done`` runs at once without any.

        ``is_apache``: a RocketMQ master takes no offset of a group before a consumer of that group has connected.
        """
        self._waiting = self._pending.all()
        self._problem, self._dropped_count = "", 0
        self._is_apache = is_apache
        self._unmet &= {pending.group for pending in self._waiting}
        self._ask_more(address, done)

    def close(self) -> None:
        """Send no further requests, and ignore their answers: the pending offsets are being saved."""
        self._is_closed = True

    def _ask_more(self, address: str, done: Done) -> None:
        batch, self._waiting = self._waiting[:ASKED_AT_ONCE], self._waiting[ASKED_AT_ONCE:]
        if self._problem or not batch:
            self._log_dropped()
            done(self._problem)
            return
        self._asked_count = len(batch)
        for pending in batch:
            self._ask(address, pending, done)

    def _ask(self, address: str, pending: PendingOffset, done: Done) -> None:
        def answered(answer: Command | str) -> None:
            if self._is_closed:
                return
            self._note(pending, answer)
            self._asked_count -= 1
            if not self._asked_count:
                self._ask_more(address, done)

        header = UpdateConsumerOffsetHeader(
            consumer_group=pending.group,
            topic=pending.topic,
            queue_id=pending.queue_id,
            commit_offset=pending.offset,
            pymq_only_forward=True,
        )
        self._network.ask(address, request(RequestCode.UPDATE_CONSUMER_OFFSET, header), answered, ASK_TIMEOUT_MS)

    def _note(self, pending: PendingOffset, answer: Command | str) -> None:
        if isinstance(answer, str):
            self._problem = answer
        elif answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            pass  # the master hands over: the offset stays for the next one
        elif self._is_apache and answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            self._log_unmet(pending.group)
        elif answer.code in _FINAL:
            self._pending.settle(pending)
            if answer.code != ResponseCode.SUCCESS:
                self._dropped_count += 1
                if self._dropped_count == 1:
                    self._first_dropped = f"{pending}, which is dropped: {answer.remark}"
                self._on_difference()
            # A RocketMQ master's answer has no offset.
            elif answer.ext and answer.ext.get("offset") != str(pending.offset):
                self._on_difference()
        else:
            self._problem = f"offsets were not taken: code {answer.code}: {answer.remark}"

    def _log_dropped(self) -> None:
        """Log the dropped offsets once a round: a deleted topic may have many."""
        if self._dropped_count:
            others = f" (and {self._dropped_count - 1} others)" if self._dropped_count > 1 else ""
            log.warning("the master did not take %s%s", self._first_dropped, others)

    def _log_unmet(self, group: str) -> None:
        """Log a group that the master does not have before a consumer connects; its offsets stay pending until then."""
        if group not in self._unmet:
            self._unmet.add(group)
            log.info("the master does not know group %s yet: its offsets wait until a consumer connects there", group)
