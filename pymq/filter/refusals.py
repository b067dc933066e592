"""Adds the next step to a broker's refusal of an expression, where the broker's own text lacks it."""

from __future__ import annotations

from pymq.errors import RefusedError

_SWITCH = "enablePropertyFilter"


def with_next_step(error: RefusedError) -> RefusedError:
    """Name the setting when a broker refuses SQL92 because that is switched off; return any other error unchanged."""
    if "does not support consumer to filter" not in error.remark or _SWITCH in error.remark:
        return error
    return RefusedError(error.code, f"{error.remark}: set {_SWITCH}=true in its broker.conf", error.address)
