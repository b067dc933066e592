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


class ConnectionMetrics:
    """The figures of one server's connections."""

    metrics = (CONNECTIONS, ACCEPTED, CLOSED, REQUESTS, BAD_FRAMES)

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Family]:
        server = self._server
        yield single(CONNECTIONS, len(server.connections))
        yield single(ACCEPTED, server.accepted_count)
        yield Family(CLOSED, [Reading((reason,), count) for reason, count in server.closed_for.items()])
        yield single(REQUESTS, server.request_count)
        yield Family(BAD_FRAMES, [Reading((reason,), count) for reason, count in server.bad_frames.items()])
