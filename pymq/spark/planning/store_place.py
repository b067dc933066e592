"""Names a store directory that is read instead of a cluster, and opens it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymq.offline.consumer_view import ConsumerView


@dataclass(slots=True, frozen=True)
class StorePlace:
    """A broker's data directory.

    ``commit_log``: its log, where that is elsewhere. ``broker_name``: what rows have as their broker; empty: the name
    that RocketMQ's tables say, or else the directory's. ``while_running``: whether a broker may run there.
    """

    directory: str
    commit_log: str = ""
    broker_name: str = ""
    while_running: bool = False

    @property
    def root(self) -> Path:
        return Path(self.directory).expanduser().absolute()

    def options(self) -> dict[str, str]:
        """Return the options of ``format("pymq")`` that name this directory."""
        given = {"store": self.directory, "commitLog": self.commit_log, "brokerName": self.broker_name}
        return {**{name: value for name, value in given.items() if value}, "whileRunning": str(self.while_running)}

    @contextmanager
    def opened(self) -> Iterator[ConsumerView]:
        """Open the directory for reading only. No broker can start there meanwhile.

        Raises NotFoundError when this is no store, StoreError when a broker runs there, OSError.
        """
        from pymq.offline.consumer_view import ConsumerView
        from pymq.offline.directory import open_directory
        from pymq.offline.files import ReadOnlyFiles, check_is_store, held

        root = str(self.root)
        log_directory = str(Path(self.commit_log or f"{root}/commitlog").expanduser().absolute())
        check_is_store(root, log_directory)
        with held(root, while_running=self.while_running):
            directory = open_directory(ReadOnlyFiles(), root, log_directory)
            view = ConsumerView(directory)
            try:
                yield view
            finally:
                view.close()
                directory.close()
