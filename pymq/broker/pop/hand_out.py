"""HandOut: what hands messages out to pops and takes their acknowledgements, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymq.broker.pop.ordered_queues import OrderedQueues
from pymq.broker.pop.popper import Popper
from pymq.broker.pop.revive_log import ReviveLog
from pymq.broker.pop.turn_acks import TurnAcks


@dataclass(frozen=True, slots=True)
class HandOut:
    """``popper`` takes messages from queues. The other parts note which group has them, and which are acknowledged.

    ``is_fenced`` returns True while this master hands over to a slave: nothing is handed out then.
    """

    popper: Popper
    revive_log: ReviveLog
    turn_acks: TurnAcks
    ordered_queues: OrderedQueues
    is_fenced: Callable[[], bool]
