"""Farewell: what parts do before they are closed, and what may happen to their store then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.assembly.store_settings import store_settings
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.replica.divergent_tail import truncate_log

log = logging.getLogger(__name__)

WHY = "the broker stops, or changes its role"


async def answer_all(parts: BrokerParts, watch_slice: Callable[[Callable[[], None]], None], *, keeps_log: bool) -> None:
    """Refuse new writes, and answer every request that waits; answers for slaves get their usual time first.

    ``keeps_log`` False: the broker changes its role, so another one may decide what stays in its log.
    """
    parts.end_turn()
    parts.store.refuse_writes(f"{WHY}: send again in a moment", by="stop")
    await _answer_waiting(parts)
    await _await_slaves(parts)
    parts.messages.waiting_answers.give_up(WHY, keeps_log=keeps_log)
    await parts.requests.release_all(watch_slice, lambda: asyncio.sleep(0))
    parts.leave_group("this broker stops, or changes its role")


async def _answer_waiting(parts: BrokerParts) -> None:
    """SYNC_FLUSH: sync what was committed, and answer it before the connections end."""
    waiting_answers = parts.messages.waiting_answers
    if waiting_answers.is_awaiting_sync:
        try:
            waiting_answers.synced(await asyncio.to_thread(parts.store.sync, log_only=True))
        except (StoreUnavailableError, OSError) as error:
            waiting_answers.sync_failed(str(error))


async def _await_slaves(parts: BrokerParts) -> None:
    """SYNC_MASTER: give slaves their usual time to confirm what was sent."""
    confirmed, sync_mode = asyncio.Event(), parts.replication.sync_mode
    parts.messages.waiting_answers.when_confirmed(confirmed.set)
    if not sync_mode.is_refusing:
        with suppress(TimeoutError):
            await asyncio.wait_for(confirmed.wait(), sync_mode.timeout_ms / 1000)


async def truncate_closed(files: Files, config: BrokerConfig, clock: Clock, end: int, why: str) -> None:
    """Truncate the log of a closed store to end at ``end``, and keep the rest in a file. Raises StoreError, OSError."""
    root = config.store_path_root_dir
    done = await asyncio.to_thread(truncate_log, files, root, store_settings(config), end, clock, why=why)
    log.warning(
        "%d messages between offsets %d and %d are truncated from the log and kept in %s: %s",
        done.message_count,
        done.start,
        done.end,
        done.path,
        why,
    )
