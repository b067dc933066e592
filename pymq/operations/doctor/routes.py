"""Checks of routes: does every topic have brokers, and does every queue have readers?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.operations.doctor.finding import Finding, note, problem, unknown, warning
from pymq.operations.doctor.name_servers import shown
from pymq.operations.doctor.state import ClusterState
from pymq.units import format_count


def check_brokers(state: ClusterState) -> Iterator[Finding]:
    answering = [server for server in state.name_servers if not server.error]
    if answering and not state.brokers:
        yield problem(
            ", ".join(server.address for server in answering),
            "no broker is registered",
            "start one with pymq broker --namesrv ADDRESS, or wait 30 s after the start of the name server",
        )


def check_missing_brokers(state: ClusterState) -> Iterator[Finding]:
    """Find brokers that name servers have forgotten: that happens two minutes after a broker begins to hang."""
    for name, reason in state.missing.items():
        yield problem(
            name,
            reason,
            "pymq broker status HOST:PORT asks it directly; if it is gone for good, pymq context add --replace names "
            "the others",
        )
    listed = {broker.view.name for broker in state.brokers}
    for topic, shares in sorted(state.ordered.items()):
        absent = sorted({share.partition(":")[0].strip() for share in shares.split(";") if share.strip()} - listed)
        if absent:
            yield problem(
                topic,
                f"its order configuration gives queues to {shown(absent)}, which no name server lists: messages for "
                "these queues wait in producers or fail",
                f"start {shown(absent)}, or change it: pymq topic order {topic} --set",
                brokers=absent,
            )


def check_routes(state: ClusterState) -> Iterator[Finding]:
    known = frozenset[str]().union(*(server.topics for server in state.name_servers))
    held: set[str] = set()
    for broker in state.masters:
        if broker.topics is None:
            if broker.answers:
                yield unknown(broker.label, "its topics are not known: it did not answer", "run this again")
            continue
        held |= broker.topics.keys()
        unlisted = sorted(broker.topics.keys() - known)
        if unlisted:
            yield problem(
                broker.label,
                f"has {format_count(len(unlisted), 'topic')} that no name server lists, so no client finds them: "
                f"{shown(unlisted)}",
                f"its log says why it can't register; pymq config show namesrv --broker {broker.label} shows where",
                topics=unlisted,
            )
    system = {broker.view.name for broker in state.brokers} | {broker.view.cluster for broker in state.brokers}
    without_broker = sorted(known - held - system)
    if without_broker and state.is_complete and all(broker.topics is not None for broker in state.masters):
        yield warning(
            shown(without_broker),
            f"name servers list {len(without_broker)} topics that no broker has",
            "pymq topic delete removes them from the name servers",
            topics=without_broker,
        )


def check_queues(state: ClusterState) -> Iterator[Finding]:
    for broker in state.masters:
        for name, config in sorted((broker.topics or {}).items()):
            write, read = config.write_queue_nums, config.read_queue_nums
            if write > read:
                yield problem(
                    f"{name} on {broker.label}",
                    f"{write} queues are written and only {read} are read: messages in queues {read} to {write - 1} "
                    "reach no consumer",
                    f"pymq topic update {name} --rq {write}",
                    write_queues=write,
                    read_queues=read,
                )
            elif read > write:
                yield note(
                    f"{name} on {broker.label}",
                    f"{write} queues are written and {read} are read: it shrinks",
                    f"pymq topic shrink {name} --to {write} goes on when all groups have read the upper ones",
                    write_queues=write,
                    read_queues=read,
                )
