"""Check of permissions: may clients write and read?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.cli.doctor.finding import Finding, note, unknown, warning
from pymq.cli.doctor.state import ClusterState
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from pymq.model.tables import PERM_READ, PERM_READ_WRITE, PERM_WRITE

_BITS = ((PERM_WRITE, "write"), (PERM_READ, "read"))
_UNSENT = (DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)  # topics that applications don't use by themselves


def check_permissions(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        perm = broker.setting("brokerPermission")
        if perm is None:
            yield unknown(broker.label, "what clients may do is not known: it does not report brokerPermission")
        missing = [] if perm is None else [name for bit, name in _BITS if not int(perm) & bit]
        if missing:
            yield warning(
                broker.label,
                f"clients may not {' or '.join(missing)} (brokerPermission={perm:.0f})",
                f"if that is not wanted: pymq config set brokerPermission={PERM_READ_WRITE} --broker {broker.label}",
                permission=int(perm or 0),
            )
    for broker in state.masters:
        for name, config in sorted((broker.topics or {}).items()):
            missing = [word for bit, word in _BITS if not config.perm & bit]
            if missing and not name.startswith(_UNSENT) and name not in SYSTEM_TOPICS:
                yield note(
                    f"{name} on {broker.label}",
                    f"clients may not {' or '.join(missing)} (permission {config.perm})",
                    f"if that is not wanted: pymq topic update {name} --perm RW",
                    permission=config.perm,
                )
