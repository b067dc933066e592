"""Owner: what a broker's parts ask of the broker that opened them and will close them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymq.broker.replication.roles.role import ChangeRole
from pymq.broker.work.jobs import HastenJob


@dataclass(frozen=True, slots=True)
class Owner:
    """``change_role`` closes the parts later and opens others in another role.

    ``on_master_role`` gets the role of the group's master each time it is seen; ``hasten_job(name, delay_ms)`` runs a
    job before its time.
    """

    change_role: ChangeRole
    on_master_role: Callable[[str], None] = lambda master_role: None
    hasten_job: HastenJob = lambda name, delay_ms: None
