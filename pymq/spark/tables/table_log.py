"""What the logs of all tables have: the state of the queues, and the folder where tasks report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.places import OutputBusyError, Place
from pymq.spark.planning.ranges import QueueKey
from pymq.spark.tables.results_folder import ResultsFolder
from pymq.spark.tables.table_state import TableState

if TYPE_CHECKING:
    from pymq.spark.planning.identity import Mark


class TableLog:
    """A log whose library keeps it. What it sets: ``settings``, ``output``, ``layout``, ``_state`` and ``_results``."""

    settings: dict[str, Any]
    output: Place
    layout: Layout
    _state: TableState
    _results: ResultsFolder

    @property
    def resumed(self) -> bool:
        """True when this run or an earlier one has committed."""
        return self._state.number > 0

    @property
    def positions(self) -> dict[QueueKey, int]:
        """The committed end offset of each queue."""
        return dict(self._state.positions)

    @property
    def marks(self) -> dict[QueueKey, Mark]:
        """The latest mark of each queue that has one: the next run recognizes the queue by it."""
        return dict(self._state.marks)

    def new_staging(self, name: str) -> Place:
        """Create a directory for the results of a round's tasks."""
        return self._results.new(name)

    def close(self) -> None:
        """Remove what tasks have reported."""
        self._results.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def busy(table: object) -> OutputBusyError:
    """Return the error for a table that another export has written to."""
    return OutputBusyError(f"another export has written to {table}: wait for it, or use another table")
