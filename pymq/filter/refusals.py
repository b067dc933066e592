"""What a broker's refusal of an expression means, where its own words don't say what to do."""

from __future__ import annotations

from pymq.errors import RefusedError

_SWITCH = "enablePropertyFilter"


def with_next_step(error: RefusedError) -> RefusedError:
    """The refusal of SQL92 by a broker that has it switched off, with the switch; any other as it is."""
    if "does not support consumer to filter" not in error.remark or _SWITCH in error.remark:
        return error
    return RefusedError(error.code, f"{error.remark}: set {_SWITCH}=true in its broker.conf", error.address)
