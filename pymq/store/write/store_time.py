"""The store time of the next message: the clock's, and never back, unless the last one came from a wrong clock."""

from __future__ import annotations

from pymq.clock import CLOCK_JUMP_MAX_MS, CLOCK_UNSET_BEFORE_MS

# A store time that is further ahead of the clock is wrong; a clock set back by less is not the reason to go back.
STORE_TIME_AHEAD_MAX_MS = CLOCK_JUMP_MAX_MS


def next_store_ms(last_ms: int, now_ms: int) -> int:
    """Return the store time of what is stored at ``now_ms`` behind a record of the time ``last_ms``.

    It never goes back, with one exception: a time that is more than a day ahead of the clock came from a wrong clock,
    and does not stay. A clock that was never set proves nothing.
    """
    if now_ms >= last_ms or (last_ms - now_ms > STORE_TIME_AHEAD_MAX_MS and now_ms >= CLOCK_UNSET_BEFORE_MS):
        return now_ms
    return last_ms
