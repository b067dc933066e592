"""Where: the brokers that an operator names for a change or a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """Brokers by name, and all of some clusters. Both empty: the callee says which ones."""

    clusters: Sequence[str]
    brokers: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Return whether no broker is named."""
        return not (self.clusters or self.brokers)
