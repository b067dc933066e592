"""Crashes of a memory file system: before every call of a save, with every state that a power loss may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pymq.store.disk.memory_fs import MemoryFiles


class _Crash(BaseException):
    """The machine stops here."""


def every_outcome(files: MemoryFiles) -> Iterator[MemoryFiles]:
    """Yield all that a power loss may leave now: every subset of unsynced entries, sizes and pages."""
    snapshot = files.snapshot()
    answers: list[bool] = []
    while True:
        asked = 0

        def choose(*_: object) -> bool:
            nonlocal asked
            asked += 1
            if asked > len(answers):
                answers.append(False)
            return answers[asked - 1]

        yield MemoryFiles.restored(snapshot.after_power_loss(choose, choose, choose))
        # The next sequence of answers: as a binary number, one more.
        while answers and answers[-1]:
            answers.pop()
        if not answers:
            return
        answers[-1] = True


def crash_points(save: Callable[[], None], files: MemoryFiles) -> Iterator[bool]:
    """Yield at a crash before every single call of ``save`` (False), and after its end (True)."""
    number, finished = 0, False
    begin = files.snapshot().image()
    while not finished:
        number += 1
        left = number
        files.__dict__.update(MemoryFiles.restored(begin).__dict__)

        def fault(call: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise _Crash

        files.fault = fault
        try:
            save()
            finished = True
        except _Crash:
            pass
        files.fault = None
        yield finished
