"""Figures of a role's listening side, the same for every role."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.metrics.family import Family, Reading, counter, gauge, single
from pymq.net.server import Server

CONNECTIONS = gauge("pymq_connections", "Open connections of clients and other servers.")
ACCEPTED = counter("pymq_connections_accepted_total", "Accepted connections.")
CLOSED = counter(
    "pymq_connections_closed_total",
    "Connections closed by this server because of a limit, by the limit's name.",
    "reason",
)
REQUESTS = counter("pymq_requests_total", "Received frames.")
BAD_FRAMES = counter("pymq_bad_frames_total", "Frames that broke the protocol, by the kind of violation.", "reason")
BUDGET = gauge("pymq_memory_budget_bytes", "Most bytes that peers may make the process hold.", unit="bytes")
HELD = gauge("pymq_memory_held_bytes", "Bytes that the process holds for its peers, by kind.", "kind", unit="bytes")
REFUSED = counter("pymq_memory_refused_total", "Requests refused because the memory budget had no room for them.")
BUDGET_CLOSED = counter(
    "pymq_memory_closed_total", "Connections closed because they held most while the memory budget was exceeded."
)
LONG_TURNS = counter(
    "pymq_long_turns_total",
    "Pieces of work that took more than 100 ms of CPU time on the event loop: a kind of request, a job, or `other`.",
    "what",
)
DELAYED_TURNS = counter(
    "pymq_delayed_turns_total",
    "Pieces of work that held the event loop for more than 100 ms with less CPU time: a busy machine, or a disk.",
)
LONGEST_TURN = gauge(
    "pymq_longest_turn_seconds", "The longest that one piece of work has held the event loop.", unit="seconds"
)
LONGEST_TURN_CPU = gauge(
    "pymq_longest_turn_cpu_seconds",
    "The most CPU time that one piece of work has taken on the event loop, give or take 10 ms.",
    unit="seconds",
)


class ConnectionMetrics:
    """The figures of one server's connections, and of the event loop that serves them."""

    metrics = (
        *(BUDGET, HELD, REFUSED, BUDGET_CLOSED),
        *(
            CONNECTIONS,
            ACCEPTED,
            CLOSED,
            REQUESTS,
            BAD_FRAMES,
            LONG_TURNS,
            DELAYED_TURNS,
            LONGEST_TURN,
            LONGEST_TURN_CPU,
        ),
    )

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Family]:
        server = self._server
        yield single(CONNECTIONS, len(server.connections))
        yield single(ACCEPTED, server.accepted_count)
        yield Family(CLOSED, [Reading((reason,), count) for reason, count in server.closed_for.items()])
        yield single(REQUESTS, server.request_count)
        yield Family(BAD_FRAMES, [Reading((reason,), count) for reason, count in server.bad_frames.items()])
        budget = server.budget
        yield single(BUDGET, budget.limit_bytes)
        yield Family(HELD, [Reading((kind,), held) for kind, held in budget.held.items()])
        yield single(REFUSED, budget.refused_count)
        yield single(BUDGET_CLOSED, budget.closed_count)
        turns = server.turns
        yield Family(LONG_TURNS, [Reading((what,), count) for what, count in turns.long_turns.items()])
        yield single(DELAYED_TURNS, turns.delayed_count)
        yield single(LONGEST_TURN, turns.longest_s)
        yield single(LONGEST_TURN_CPU, turns.longest_cpu_s)
