"""Checks of machines that run several workers: are all of them there?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from pymq.client.admin.machines import Place, place_of
from pymq.model.hosts import host_of
from pymq.operations.doctor.finding import Finding, problem
from pymq.operations.doctor.state import Broker, ClusterState


def check_workers(state: ClusterState) -> Iterator[Finding]:
    """Yield a finding for each machine whose workers are not all there."""
    machines: dict[Hashable, dict[int, Broker]] = {}
    counts: dict[Hashable, Place] = {}
    for broker in state.answering:
        place = place_of(broker.view.runtime)
        if place is not None:
            key = _key(place, broker)
            machines.setdefault(key, {})[place.number] = broker
            counts[key] = max(counts.get(key, place), place, key=lambda one: one.count)
    for key, workers in machines.items():
        place = counts[key]
        missing = [number for number in range(place.count) if number not in workers]
        if missing:
            address = min(worker.view.address for worker in workers.values())
            yield problem(
                place.machine,
                f"worker{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {place.count} at "
                f"{host_of(address)} {'do' if len(missing) > 1 else 'does'} not answer",
                "read the log of the machine's process there: a worker that ended five times within a minute is left "
                "down until that process gets SIGHUP",
                missing=missing,
                workers=place.count,
            )


def _key(place: Place, broker: Broker) -> Hashable:
    """Return what the workers of one machine have in common: masters and slaves of one name are on several machines."""
    status = broker.view.status
    is_raft = status is not None and status.raft is not None
    # The leaders of a machine's Raft groups may be anywhere, so their ids say nothing.
    return broker.view.cluster, place.machine, host_of(broker.view.address), None if is_raft else broker.view.broker_id
