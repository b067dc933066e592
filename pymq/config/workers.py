"""The keys of a machine of workers: brokers side by side, one process each."""

# One key per row reads best as a table.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from pymq.config.base import Config, setting
from pymq.config.values import WORKER_COUNT_MAX

WORKERS_KEY, PINNED_KEY, KEEPS_NAME_KEY = "workers", "workersPinned", "firstWorkerKeepsName"
MACHINE_KEY, NUMBER_KEY, COUNT_KEY = "workerMachine", "workerNumber", "workerCount"
AUTO = "auto"
# From 1 to WORKER_COUNT_MAX.
_COUNT = (r"auto|[1-9]|[1-5][0-9]|6[0-4]", f"a whole number from 1 to {WORKER_COUNT_MAX}, or {AUTO}")


@dataclass
class WorkersConfig(Config):
    """How many workers a machine has; and, in each worker, which one it is."""

    # fmt: off
    workers: str = setting(WORKERS_KEY, "1", f"Brokers that one command runs side by side, each in a process of its own with its own name, port and part of the data directory: 1 to {WORKER_COUNT_MAX}, or `auto` for the number of cores less one. 1: this process alone.", form=_COUNT)
    workers_pinned: bool = setting(PINNED_KEY, False, "Keep each worker on a core of its own, as far as there are enough.")
    first_worker_keeps_name: bool = setting(KEEPS_NAME_KEY, False, "Worker 0 of a new data directory is called brokerName, without `-0`: for a slave of a machine whose worker 0 was a broker alone.")
    worker_machine: str = setting(MACHINE_KEY, "", "The machine that this worker belongs to, which is brokerName of the command that runs it. That command sets it.")
    worker_number: int = setting(NUMBER_KEY, 0, "This worker's number in its machine. The command that runs it sets it.", minimum=0, maximum=WORKER_COUNT_MAX - 1)
    worker_count: int = setting(COUNT_KEY, 1, "The number of workers of its machine. The command that runs it sets it.", minimum=1, maximum=WORKER_COUNT_MAX)
    # fmt: on

    @property
    def is_worker(self) -> bool:
        """True in a worker, False in a broker alone and in the process that runs workers."""
        return bool(self.worker_machine)


def worker_count(text: str, core_count: int) -> int:
    """Return the number that ``workers`` means on a machine with so many cores."""
    return min(max(core_count - 1, 1), WORKER_COUNT_MAX) if text == AUTO else int(text)
