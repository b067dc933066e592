"""The checks of the doctor: PyMQ's own, then those of installed packages.

A package adds checks with an entry point of the group ``pymq.doctor`` that is a :class:`Check` or a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pymq.errors import UsageError
from pymq.operations.doctor import (
    groups,
    lites,
    machines,
    name_servers,
    permissions,
    ports,
    replication,
    routes,
    stores,
    versions,
    workers,
)
from pymq.operations.doctor.finding import ORDER, Check, Finding, Severity, unknown
from pymq.operations.doctor.state import ClusterState

NAME_SERVERS = "name-servers"
ENTRY_POINTS = "pymq.doctor"
OWN_CHECKS = (
    Check(NAME_SERVERS, "Do all name servers answer?", name_servers.check_name_servers),
    Check("agreement", "Do the name servers know the same brokers and topics?", name_servers.check_agreement),
    Check("brokers", "Is a broker registered?", routes.check_brokers),
    Check("missing", "Is every broker listed that a context or an order names?", routes.check_missing_brokers),
    Check("route", "Can clients find every topic?", routes.check_routes),
    Check("queues", "Is every queue that is written also read?", routes.check_queues),
    Check("address", "Can clients reach the addresses that brokers advertise?", ports.check_addresses),
    Check("ports", "Are listen, listen-2, HA and metrics ports open?", ports.check_ports),
    Check("clock", "Do brokers have this machine's time?", machines.check_clocks),
    Check("interpreter", "Do brokers run on a fast build of Python?", machines.check_interpreters),
    Check("disk", "Do brokers have room on their disks?", machines.check_disks),
    Check("writes", "Do masters take messages?", stores.check_writes),
    Check("store", "Is all well with what brokers store?", stores.check_stores),
    Check("files", "Do brokers have file descriptors left?", machines.check_files),
    Check("permission", "May clients write and read?", permissions.check_permissions),
    Check("types", "Are messages of the type that their topic names?", permissions.check_types),
    Check("lite-topics", "Do lite topics work, and have they room?", lites.check_lites),
    Check("workers", "Are all workers of each machine there?", workers.check_workers),
    Check("masters", "Does every group of brokers have one master?", replication.check_masters),
    Check("replication", "Is everything replicated as it should be?", replication.check_replication),
    Check("raft", "Does every Raft group have a leader and all members?", replication.check_raft),
    Check("subscriptions", "Do the members of each group subscribe alike?", groups.check_subscriptions),
    Check("stuck", "Does every consumer group get on?", groups.check_stuck_groups),
    Check("versions", "Do all brokers run the same version?", versions.check_versions),
)


def all_checks(find_entry_points: Callable[[], Iterable[EntryPoint]] | None = None) -> list[Check]:
    """Return all checks. A package that can't be loaded is a check that reports its error as not known."""
    found = list(OWN_CHECKS)
    for entry in entry_points(group=ENTRY_POINTS) if find_entry_points is None else find_entry_points():
        try:
            loaded: Any = entry.load()
            found += [loaded] if isinstance(loaded, Check) else [Check(*one) for one in loaded]
        except Exception as error:  # a foreign package may raise anything while it is imported
            found.append(_broken(entry.name, f"can't be loaded: {type(error).__name__}: {error}"))
    return found


def chosen(checks: list[Check], names: Iterable[str]) -> list[Check]:
    """Return the named checks, all without names. Raises UsageError for a name that no check has."""
    wanted = list(names)
    known = {check.name: check for check in checks}
    for name in wanted:
        if name not in known:
            raise UsageError(f"no check {name!r}: there are {', '.join(known)}")
    return [known[name] for name in wanted] if wanted else checks


def run_checks(checks: Iterable[Check], state: ClusterState) -> list[tuple[str, Finding]]:
    """Return (name of the check, finding), the worst first. A check that fails is reported as not known."""
    found = [(check.name, finding) for check in checks for finding in _run(check, state)]
    return sorted(found, key=lambda one: ORDER.index(one[1].severity))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity, None without a finding."""
    return min((finding.severity for finding in findings), key=ORDER.index, default=None)


def _run(check: Check, state: ClusterState) -> Iterator[Finding]:
    try:
        yield from list(check.run(state))
    except Exception as error:  # of a plugin, or of an answer that no broker should give
        yield unknown(check.name, f"the check failed: {type(error).__name__}: {error}", "report it to its author")


def _broken(name: str, text: str) -> Check:
    return Check(name, "", lambda _: [unknown(name, text, "mend or remove the package")])


def report_record(state: ClusterState, checks: Sequence[Check], found: Sequence[tuple[str, Finding]]) -> dict[str, Any]:
    """Return what was looked at and what was found, as plain values; ``found`` as :func:`run_checks` returns it."""
    severity = worst(finding for _, finding in found)
    return {
        "worst": severity.value if severity else None,
        "name_servers": [server.address for server in state.name_servers],
        "brokers": [broker.view.address for broker in state.brokers],
        "groups": [group.name for group in state.groups],
        "observed_ms": state.observed_ms,
        "checks": [
            {
                "name": check.name,
                "question": check.question,
                "checked": state.is_reachable or check.name == NAME_SERVERS,
                "findings": sum(name == check.name for name, _ in found),
            }
            for check in checks
        ],
        "findings": [finding.as_record(name) for name, finding in found],
    }
