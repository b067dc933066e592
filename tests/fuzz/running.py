"""Runs targets, each in a process of its own: guided by coverage with atheris, or with mutations of our own.

A fault is any error that the decoder's documentation does not name, and a process that dies or hangs. A run goes on
after a fault, and shows each place once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.property.mutations import Mutator

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

INPUT_BYTES_MAX = 4096
INPUT_TIME_MAX_S = 10
MEMORY_MAX_MB = 2048
FAULTS_MAX = 20  # of one target; it ends there
INSTRUMENTED = ["pymq", "h11"]
_CHECKED_EVERY = 256  # inputs between two looks at the clock


class Fault(NamedTuple):
    """One place where an error came from, and an input that shows it."""

    target: str
    error: str
    place: str
    raw: bytes


class Outcome(NamedTuple):
    """What a target's run did."""

    target: str
    inputs: int
    faults: list[Fault]


class Trial:
    """Gives inputs to a target; counts them and keeps the faults."""

    def __init__(self, target: Target, on_fault: Callable[[Fault], None], counter: Any) -> None:
        """``counter.value``: inputs so far."""
        self.faults: dict[str, Fault] = {}
        self._target = target
        self._on_fault = on_fault
        self._counter = counter

    def __call__(self, raw: bytes) -> None:
        self._counter.value += 1
        try:
            self._target.run(raw)
        except self._target.documented:
            pass
        except Exception as error:  # a fault, whatever it is
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}"
            if place not in self.faults and len(self.faults) < FAULTS_MAX:
                fault = Fault(self._target.name, f"{type(error).__name__}: {error}"[:300], place, raw)
                self.faults[place] = fault
                self._on_fault(fault)


class Counter:
    """Inputs of a run in this process."""

    value = 0


def mutated(target: Target, seed: int) -> Iterator[bytes]:
    """Yield a target's seeds, and then damaged copies of them without end."""
    found = list(target.seeds())
    yield from found
    mutator = Mutator(found, seed)
    while True:
        yield mutator.mutate()


def run_some(target: Target, count: int, seed: int) -> Outcome:
    """Give so many inputs to a target; the same ones for the same seed."""
    counter = Counter()
    trial = Trial(target, lambda fault: None, counter)
    for _, raw in zip(range(count), mutated(target, seed), strict=False):
        trial(raw)
    return Outcome(target.name, counter.value, list(trial.faults.values()))


def has_atheris() -> bool:
    """True when coverage can guide the run."""
    return importlib.util.find_spec("atheris") is not None


def load_targets(*, guided: bool) -> dict[str, Target]:
    """Return all targets; with ``guided`` their modules tell atheris what they run."""
    if not guided:
        from tests.fuzz.targets import TARGETS
    else:
        import atheris

        with quiet(), atheris.instrument_imports(include=INSTRUMENTED):
            from tests.fuzz.targets import TARGETS
    return TARGETS


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep file descriptor 2 silent: atheris names each module there."""
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def run_all(targets: Sequence[Target], seconds: float, seed: int, *, guided: bool, processes: int) -> Iterator[Outcome]:
    """Run each target for its share of ``seconds``, so many at a time."""
    share_s = max(1, round(seconds * processes / len(targets)))
    context = multiprocessing.get_context("fork")  # modules are loaded, and instrumented, once
    with TemporaryDirectory(prefix="pymq-fuzz-") as scratch:
        waiting = list(targets)
        running: list[tuple[Target, Any, Path, Any]] = []
        while waiting or running:
            while waiting and len(running) < processes:
                target = waiting.pop(0)
                directory = Path(scratch) / target.name
                directory.mkdir()
                counter = context.RawValue("Q", 0)
                run = _guided if guided else _plain
                process = context.Process(target=run, args=(target, share_s, seed, directory, counter))
                process.start()
                running.append((target, process, directory, counter))
            multiprocessing.connection.wait([process.sentinel for _, process, _, _ in running])
            for each in [each for each in running if not each[1].is_alive()]:
                running.remove(each)
                each[1].join()
                yield _outcome(*each)


def _outcome(target: Target, process: Any, directory: Path, counter: Any) -> Outcome:
    faults = []
    for line in (directory / "faults").read_text().splitlines() if (directory / "faults").exists() else []:
        error, place, raw = json.loads(line)
        faults.append(Fault(target.name, error, place, bytes.fromhex(raw)))
    if process.exitcode:
        said = (directory / "said").read_text(errors="replace")[-2000:]
        inputs = sorted(directory.glob("input-*"))
        raw = inputs[0].read_bytes() if inputs else b""
        faults.append(Fault(target.name, f"the process ended with {process.exitcode}: {said}", "process", raw))
    return Outcome(target.name, counter.value, faults)


def _trial(target: Target, directory: Path, counter: Any) -> Trial:
    """Return a trial that writes its faults down at once; what the process says goes to a file."""
    logging.disable(logging.CRITICAL)
    with (directory / "said").open("w") as said:
        os.dup2(said.fileno(), 2)

    def write(fault: Fault) -> None:
        with (directory / "faults").open("a") as file:
            file.write(json.dumps([fault.error, fault.place, fault.raw.hex()]) + "\n")

    return Trial(target, write, counter)


def _plain(target: Target, share_s: int, seed: int, directory: Path, counter: Any) -> None:
    trial = _trial(target, directory, counter)
    end_s = time.monotonic() + share_s
    for number, raw in enumerate(mutated(target, seed)):
        trial(raw)
        if not number % _CHECKED_EVERY and time.monotonic() > end_s:
            return


def _guided(target: Target, share_s: int, seed: int, directory: Path, counter: Any) -> None:
    import atheris

    trial = _trial(target, directory, counter)
    corpus = directory / "corpus"
    corpus.mkdir()
    for number, raw in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(raw)
    options = [
        f"-max_total_time={share_s}",
        f"-seed={seed or 1}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_TIME_MAX_S}",
        f"-rss_limit_mb={MEMORY_MAX_MB}",
        f"-artifact_prefix={directory}/input-",
        "-verbosity=0",
        str(corpus),
    ]
    atheris.Setup(["fuzz", *options], trial, internal_libfuzzer=True)
    atheris.Fuzz()  # ends the process
