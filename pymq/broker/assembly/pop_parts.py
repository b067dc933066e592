"""PopParts: the parts of pop consumption by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.pop.lite_control import LiteControl
from pymq.broker.pop.lite_expiry import LiteExpiry
from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.pop.lite_popper import LitePopper
from pymq.broker.pop.lite_subscriptions import LiteSubscriptions
from pymq.broker.pop.ordered_queues import OrderedQueues
from pymq.broker.pop.popper import Popper
from pymq.broker.pop.revive_log import ReviveLog
from pymq.broker.pop.reviver import Reviver
from pymq.broker.pop.turn_acks import TurnAcks
from pymq.broker.runtime import Runtime

if TYPE_CHECKING:
    from pymq.broker.assembly.broker_data import BrokerData
    from pymq.broker.assembly.messages import Messages


class PopParts:
    """What hands messages out and delivers them again. Only a master uses it."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        data: BrokerData,
        messages: Messages,
    ) -> None:
        store, metadata = data.store, data.metadata
        self.revive_log = ReviveLog(
            config=runtime.config,
            clock=runtime.clock,
            store=store,
            writer=messages.writer,
            cursors=metadata.cursors,
            store_host=runtime.store_host,
        )
        self.turn_acks = TurnAcks(stager=store.plain_stager(), writer=messages.writer, revive_log=self.revive_log)
        self.ordered_queues = OrderedQueues(clock=runtime.clock, infos=metadata.order_infos, cursors=metadata.cursors)
        self.popper = Popper(
            runtime,
            metadata=metadata,
            store=store,
            reader=messages.reader,
            stats=data.stats,
            revive_log=self.revive_log,
            ordered_queues=self.ordered_queues,
        )
        self.lite_subscriptions = LiteSubscriptions(runtime, names_of=store.lights.names_of)
        self.lite_offsets = LiteOffsets(metadata.cursors, store.lights)
        self.lite_expiry = LiteExpiry(runtime, metadata=metadata, lights=store.lights, offsets=self.lite_offsets)
        self.lite_control = LiteControl(
            metadata=metadata,
            lights=store.lights,
            subscriptions=self.lite_subscriptions,
            ordered_queues=self.ordered_queues,
            offsets=self.lite_offsets,
        )
        self.lite_popper = LitePopper(
            runtime,
            metadata=metadata,
            store=store,
            writer=messages.writer,
            retries=messages.retries,
            stats=data.stats,
            subscriptions=self.lite_subscriptions,
            ordered_queues=self.ordered_queues,
            offsets=self.lite_offsets,
        )
        self.reviver = Reviver(
            runtime,
            metadata=metadata,
            store=store,
            writer=messages.writer,
            retries=messages.retries,
            revive_log=self.revive_log,
        )
