"""The limits of one server: every cap is a named number, and a test shows what happens at it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from pymq.net.descriptors import reserved_count
from pymq.net.machine import memory_bytes
from pymq.net.memory_budget import LIMIT_DEFAULT_BYTES, MemoryBudget
from pymq.wire.command import FRAME_SIZE_MAX_BYTES

# After a frame of this size a server looks at the time, as after some small ones: it may be a batch of thousands.
STEP_BYTES = 64 * 1024
ADDRESS_SHARE = 2  # one address gets at most this part of the connections that descriptors allow: a half
MEMORY_SHARE = 4  # what clients make a server hold is at most this part of the machine's memory: a quarter


@dataclass(slots=True, frozen=True)
class ServerLimits:
    """At a connection cap the server closes the new connection; at any other cap, the connection that reached it."""

    connection_count_max: int = 10_000
    connection_count_per_host_max: int = 1_024
    frame_size_max_bytes: int = FRAME_SIZE_MAX_BYTES
    # For a peer that does not read its answers: reading from it pauses at the first mark, it is closed at the second.
    write_pause_bytes: int = 1024 * 1024
    write_buffer_max_bytes: int = 16 * 1024 * 1024
    # While the memory budget has no room: a peer that reads nothing for so long is closed.
    unread_stall_ms: int = 2_000
    frame_complete_within_ms: int = 30_000
    idle_close_ms: int = 120_000
    pending_asks_max: int = 1_024
    backlog: int = 1_024  # connections that wait to be accepted, each of which may take a descriptor at once


class LimitSettings(Protocol):
    """The limit settings that a name server's and a broker's configuration share."""

    connection_count_max: int
    connection_count_per_address_max: int
    frame_size_bytes_max: int
    unread_answers_bytes_max: int
    frame_time_ms_max: int
    idle_timeout_s: int


def server_limits(config: LimitSettings) -> ServerLimits:
    """Return a server's limits from its configuration."""
    return ServerLimits(
        connection_count_max=config.connection_count_max,
        connection_count_per_host_max=config.connection_count_per_address_max,
        frame_size_max_bytes=config.frame_size_bytes_max,
        write_buffer_max_bytes=config.unread_answers_bytes_max,
        frame_complete_within_ms=config.frame_time_ms_max,
        idle_close_ms=config.idle_timeout_s * 1000,
    )


def within_descriptors(limits: ServerLimits, limit: int) -> ServerLimits:
    """Return the limits that fit a process with ``limit`` file descriptors. One address gets half of them at most."""
    reserved = reserved_count(limit)
    room = limit - reserved
    return replace(
        limits,
        connection_count_max=min(limits.connection_count_max, room),
        connection_count_per_host_max=min(limits.connection_count_per_host_max, room // ADDRESS_SHARE),
        backlog=min(limits.backlog, max(1, reserved // 2)),
    )


def make_budget(limit_bytes: int = LIMIT_DEFAULT_BYTES) -> MemoryBudget:
    """Return the memory budget of a process: as configured, but not more than a quarter of the machine's memory."""
    return MemoryBudget(min(limit_bytes, memory_bytes() // MEMORY_SHARE))
