"""Which process of several runs which file of tests.

Import it where pytest-xdist is installed alone.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.interop.support.shared import shared_server
from tests.spark_session import asks_for_session


class Scheduling(LoadFileScheduling):
    """Gives files to any process, but all that share something expensive to one: the Spark session, an Apache broker.

    A test that ends its process, as pytest-timeout does with one that hangs, is one failed test, and another process
    goes on behind it. xdist alone would run that test again, or wait for ever.
    """

    def remove_node(self, node: Any) -> str | None:
        """Take a process that ended out of the plan. Return the test that it ran, None when it had none left."""
        for unit in self.assigned_work.get(node, {}).values():
            for nodeid, is_done in unit.items():
                if not is_done:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return str(nodeid)
        found: str | None = super().remove_node(node)
        return found

    def _reschedule(self, node: Any) -> None:
        """Give work to a process until it has two tests, or no more will come: it begins none that may be its last."""
        if node not in self.registered_collections:
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if asks_for_session(file):
            return "the Spark session"
        return shared_server(file) or file
