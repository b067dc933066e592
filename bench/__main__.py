"""Command line of the measurements: `python -m bench`, which scripts/bench calls."""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from bench import process
from bench.apache import VERSION, ApacheBroker
from bench.cases import (
    CASES,
    FULL,
    QUICK,
    SYNC_CASES,
    SYNC_SETTINGS,
    TLS_CASES,
    Bench,
    Case,
    Figure,
    Sizes,
    start_and_idle,
    store_append,
    store_follow,
    store_queues,
)
from bench.client_cases import CLIENT_CASES
from bench.control import BenchError
from bench.filter_servers import CASE as FILTER_SERVER_CASE
from bench.filter_servers import filter_server
from bench.grpc_cases import GRPC_CASES, ApacheProxyBroker, make_grpc_server
from bench.grpc_go import GRPC_GO_CASES
from bench.java_pushes import JAVA_CASES
from bench.lites import LITE_CASES, LITE_SETTINGS
from bench.name_server import FULL_LOAD, NAME_SERVER_CASE, QUICK_LOAD, measure_name_server
from bench.pairs import ApachePair, PyMQPair
from bench.replicas import REPLICA_CASES, REPLICA_SYNC_CASES, PairBench, PairCase
from bench.replicas import SYNC_SETTINGS as REPLICA_SYNC_SETTINGS
from bench.report import Collected
from bench.restarts import FULL_MESSAGES, QUICK_MESSAGES, RESTART_CASES, measure_restarts
from bench.scale import FULL_SCALE, QUICK_SCALE, SCALE_CASES, ScaleBench
from bench.spark_cases import SPARK_CASES, Setting
from bench.standalone import PyMQBroker
from bench.tables import TABLE_CASES, TABLE_SETTINGS
from bench.trios import CASE as RAFT_CASE
from bench.trios import make_trio, raft_send
from bench.turns import TURN_CASES, TURN_SETTINGS
from bench.workers import WORKERS_CASES, measure_workers, worker_count
from bench.workers_grpc import CASE as WORKERS_GRPC_CASE
from bench.workers_grpc import Contender, GrpcMachine, measure_in_turn, name_of
from tests.certificates import certificates

START_CASE = "start"
APPEND_CASE = "store-append"
FOLLOW_CASE = "store-follow"
QUEUES_CASE = "queues"
ALL_GRPC_CASES = {**GRPC_CASES, **GRPC_GO_CASES}
ALL_CASES = [
    START_CASE, *CASES, *CLIENT_CASES, *JAVA_CASES, *TURN_CASES, *TABLE_CASES, *LITE_CASES, *SYNC_CASES,
    *TLS_CASES,
    APPEND_CASE, FOLLOW_CASE, QUEUES_CASE, *SCALE_CASES,
    *RESTART_CASES, *REPLICA_CASES, *REPLICA_SYNC_CASES, RAFT_CASE, FILTER_SERVER_CASE, NAME_SERVER_CASE, *SPARK_CASES,
    *ALL_GRPC_CASES, *WORKERS_CASES, WORKERS_GRPC_CASE,
]  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options; names are positional."""
    made = argparse.ArgumentParser(prog="scripts/bench", description="Measures PyMQ and, on request, an Apache broker.")
    made.add_argument("names", nargs="*", metavar="NAME", help=f"cases to measure (all): {', '.join(ALL_CASES)}")
    made.add_argument(
        "--apache", action="store_true", help="also measure an Apache broker, alternating; needs mvn and java"
    )
    made.add_argument("--apache-version", default=VERSION, help=f"its version ({VERSION}); lite topics need 5.5.0")
    made.add_argument("--only-apache", action="store_true", help="measure only the Apache broker")
    made.add_argument("--quick", action="store_true", help="a fifth of the messages, one round")
    made.add_argument("--rounds", type=int, default=3, help="rounds of each case, alternating (3)")
    made.add_argument("--heap", default="512m", help="the Apache broker's Java heap (512m)")
    made.add_argument("--pymq", default="", help="the pymq command to start, for example dist/pymq")
    made.add_argument("--dir", type=Path, help="directory for the brokers' files (a temporary directory)")
    made.add_argument("--json", type=Path, help="also write all values of all rounds to this file")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the measurements; returns 0 when all succeeded."""
    options = parser().parse_args(arguments)
    # Ends through the finally blocks, so that no broker is left running or paused.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    unknown = [name for name in options.names if name not in ALL_CASES]
    if unknown:
        print(f"unknown case {', '.join(unknown)}: choose from {', '.join(ALL_CASES)}", file=sys.stderr)
        return 2
    directory = options.dir or Path(tempfile.mkdtemp(prefix="pymq-bench-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        failures = Run(options, directory).all()
    except BenchError as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    for failure in failures:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failures else 0


class Run:
    """One call of scripts/bench."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self._options = options
        self._directory = directory
        self._sizes: Sizes = QUICK if options.quick else FULL
        self._rounds = 1 if options.quick else options.rounds
        self._names: list[str] = options.names or ALL_CASES
        self._collected = Collected()
        self._failures: list[str] = []
        self._command = [options.pymq] if options.pymq else [sys.executable, "-m", "pymq"]

    def all(self) -> list[str]:
        """Measures, prints the table, and writes the JSON file; returns the failures with their reasons.

        Raises:
            BenchError: a broker could not be started.
        """
        if START_CASE in self._names:
            self._start_cases()
        spark_cases: dict[str, Case] = {name: partial(self._spark, name) for name in SPARK_CASES}
        load_cases = {**CASES, **CLIENT_CASES, **JAVA_CASES, **spark_cases}
        if set(self._names) & set(load_cases):
            self._load_cases("load", load_cases, {})
        if set(self._names) & set(TURN_CASES):
            self._load_cases("turns", TURN_CASES, TURN_SETTINGS)
        if set(self._names) & set(TABLE_CASES):
            self._load_cases("tables", TABLE_CASES, TABLE_SETTINGS)
        if set(self._names) & set(LITE_CASES):
            self._load_cases("lites", LITE_CASES, LITE_SETTINGS)
        if FILTER_SERVER_CASE in self._names and not self._options.only_apache:
            self._filter_server_case()
        if NAME_SERVER_CASE in self._names and not self._options.only_apache:
            self._name_server_case()
        if not self._options.only_apache:
            self._workers_cases()
        if WORKERS_GRPC_CASE in self._names:
            self._workers_grpc_case()
        if set(self._names) & set(SYNC_CASES):
            self._load_cases("sync", SYNC_CASES, SYNC_SETTINGS)
        if set(self._names) & set(ALL_GRPC_CASES):
            self._load_cases("grpc", ALL_GRPC_CASES, {})
        if set(self._names) & set(TLS_CASES):
            server = certificates().server
            paths = {"tls.server.certPath": str(server.cert_path), "tls.server.keyPath": str(server.key_path)}
            self._load_cases("tls", TLS_CASES, paths)
        if APPEND_CASE in self._names and not self._options.only_apache:
            self._append_case()
        if FOLLOW_CASE in self._names and not self._options.only_apache:
            self._follow_case()
        if QUEUES_CASE in self._names and not self._options.only_apache:
            self._queues_case()
        if not self._options.only_apache:
            self._scale_cases()
        if set(self._names) & set(RESTART_CASES):
            self._restart_cases()
        self._pair_cases("pair", REPLICA_CASES, {})
        self._pair_cases("sync-pair", REPLICA_SYNC_CASES, REPLICA_SYNC_SETTINGS)
        if RAFT_CASE in self._names:
            self._raft_case()
        ours = ApacheBroker.name if self._options.only_apache else PyMQBroker.name
        other = ApacheBroker.name if self._options.apache and not self._options.only_apache else None
        self._collected.show(ours, other)
        if self._options.json:
            self._options.json.write_text(json.dumps(self._collected.as_data(), indent=1))
        return self._failures

    def _make(
        self, kind: str, directory: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> PyMQBroker | ApacheBroker:
        directory.mkdir(parents=True, exist_ok=True)
        if kind == ApacheBroker.name:
            return ApacheBroker(directory, self._options.heap, settings, self._options.apache_version)
        return PyMQBroker(directory, self._command, settings)

    def _kinds(self) -> list[str]:
        kinds = [] if self._options.only_apache else [PyMQBroker.name]
        if self._options.apache or self._options.only_apache:
            kinds.append(ApacheBroker.name)
        return kinds

    def _start_cases(self) -> None:
        for kind in self._kinds():
            place = self._directory / f"idle-{kind.split()[0].lower()}"
            self._note(kind, START_CASE)
            starts = 1 if self._options.quick else 5
            figures = start_and_idle(partial(self._make, kind), place, self._sizes, starts)
            self._collected.add(kind, figures)

    def _append_case(self) -> None:
        """Measures appends without a broker, which other stores don't allow."""
        self._note(PyMQBroker.name, APPEND_CASE)
        figures = store_append(self._sizes, self._rounds, self._directory)
        self._collected.add(PyMQBroker.name, figures)

    def _follow_case(self) -> None:
        """Measures following a master's log without a broker."""
        self._note(PyMQBroker.name, FOLLOW_CASE)
        self._collected.add(PyMQBroker.name, store_follow(self._sizes, self._rounds, self._directory))

    def _queues_case(self) -> None:
        """Measures a store with many queues without a broker."""
        self._note(PyMQBroker.name, QUEUES_CASE)
        for _ in range(self._rounds):
            self._collected.add(PyMQBroker.name, store_queues(self._sizes, self._directory))

    def _scale_cases(self) -> None:
        """Measures only PyMQ, because nothing is known of Apache's targets; each case starts its own brokers."""
        sizes = QUICK_SCALE if self._options.quick else FULL_SCALE
        for name in [name for name in SCALE_CASES if name in self._names]:
            for number in range(self._rounds):
                self._note(PyMQBroker.name, name)
                place = self._directory / f"{name}-{number}"
                try:
                    self._collected.add(PyMQBroker.name, SCALE_CASES[name](ScaleBench(place, self._command, sizes)))
                except BenchError as problem:
                    self._failures.append(f"{PyMQBroker.name}, {name}: {problem}")
                shutil.rmtree(place, ignore_errors=True)

    def _filter_server_case(self) -> None:
        """Measures only PyMQ: RocketMQ has had no filter servers since 4.3."""
        server = PyMQBroker(self._directory / FILTER_SERVER_CASE, self._command)
        bench = Bench(server, self._sizes)
        try:
            server.start()
            for _ in range(self._rounds):
                case = partial(filter_server, command=self._command, directory=self._directory)
                self._one(FILTER_SERVER_CASE, case, bench, [bench])
        finally:
            server.stop()

    def _workers_cases(self) -> None:
        """Measures only PyMQ: workers are its own."""
        for name in WORKERS_CASES:
            for number in range(self._rounds if name in self._names else 0):
                self._note(PyMQBroker.name, name)
                place = self._directory / f"{name}-{number}"
                self._collected.add(
                    PyMQBroker.name, measure_workers(name, self._command, place, self._sizes, worker_count())
                )
                shutil.rmtree(place, ignore_errors=True)

    def _workers_grpc_case(self) -> None:
        """Measures one broker, workers and Apache's proxy in turn."""
        count = worker_count()
        contenders = list[Contender]()
        for kind in self._kinds():
            self._note(kind, WORKERS_GRPC_CASE)
            if kind == ApacheBroker.name:
                place = self._directory / f"{WORKERS_GRPC_CASE}-apache"
                place.mkdir()
                contenders.append(Contender(kind, name_of(count), ApacheProxyBroker(place, self._options.heap)))
                continue
            for number in (1, count):
                server = GrpcMachine(self._directory / f"{WORKERS_GRPC_CASE}-{number}", self._command, number)
                contenders.append(Contender(kind, name_of(number), server))
        for kind, figures in measure_in_turn(contenders, self._sizes, self._rounds):
            self._collected.add(kind, figures)

    def _name_server_case(self) -> None:
        load = QUICK_LOAD if self._options.quick else FULL_LOAD
        for _ in range(self._rounds):
            self._note(PyMQBroker.name, NAME_SERVER_CASE)
            self._collected.add(PyMQBroker.name, measure_name_server(self._command, self._directory, load))

    def _restart_cases(self) -> None:
        chosen = [name for name in RESTART_CASES if name in self._names]
        messages = QUICK_MESSAGES if self._options.quick else FULL_MESSAGES
        for number in range(self._rounds):
            for kind in self._kinds():
                self._note(kind, ", ".join(chosen))
                place = self._directory / f"restart-{kind.split()[0].lower()}-{number}"
                try:
                    self._collected.add(kind, measure_restarts(self._make(kind, place), messages, chosen))
                except BenchError as problem:
                    self._failures.append(f"{kind}, {chosen[0]}: {problem}")
                shutil.rmtree(place, ignore_errors=True)

    def _pair_cases(self, prefix: str, cases: Mapping[str, PairCase], settings: Mapping[str, str]) -> None:
        """Runs the chosen ones of ``cases`` on a master and a slave; only one pair runs at a time."""
        chosen = [name for name in cases if name in self._names]
        for number in range(self._rounds if chosen else 0):
            for kind in self._kinds():
                place = self._directory / f"{prefix}-{kind.split()[0].lower()}-{number}"
                pair = self._make_pair(kind, place, settings)
                try:
                    pair.start()
                    bench = PairBench(pair, self._sizes)
                    for name in chosen:
                        self._note(kind, name)
                        self._collected.add(kind, cases[name](bench))
                except BenchError as problem:
                    self._failures.append(f"{kind}, {', '.join(chosen)}: {problem}")
                finally:
                    pair.stop()
                shutil.rmtree(place, ignore_errors=True)

    def _raft_case(self) -> None:
        """Measures groups of three; only one of them runs at a time."""
        for number in range(self._rounds):
            for kind in self._kinds():
                self._note(kind, RAFT_CASE)
                place = self._directory / f"trio-{kind.split()[0].lower()}-{number}"
                trio = make_trio(kind, place, self._options.heap, self._command)
                try:
                    trio.start()
                    self._collected.add(kind, raft_send(trio, self._sizes))
                except BenchError as problem:
                    self._failures.append(f"{kind}, {RAFT_CASE}: {problem}")
                finally:
                    trio.stop()
                shutil.rmtree(place, ignore_errors=True)

    def _make_pair(self, kind: str, directory: Path, settings: Mapping[str, str]) -> PyMQPair | ApachePair:
        directory.mkdir(parents=True, exist_ok=True)
        if kind == ApacheBroker.name:
            return ApachePair(directory, self._options.heap, settings)
        return PyMQPair(directory, self._command, settings)

    def _load_cases(self, prefix: str, cases: Mapping[str, Case], settings: Mapping[str, str]) -> None:
        """Starts the servers with ``settings`` and runs the chosen ones of ``cases``, alternating."""
        benches: list[Bench] = []
        try:
            for kind in self._kinds():
                place = self._directory / f"{prefix}-{kind.split()[0].lower()}"
                server = (
                    make_grpc_server(kind, place, self._options.heap, self._command)
                    if cases is ALL_GRPC_CASES
                    else self._make(kind, place, settings)
                )
                benches.append(Bench(server, self._sizes))
                server.start()
            for name in [name for name in cases if name in self._names]:
                for _ in range(1 if name in SPARK_CASES else self._rounds):
                    for bench in benches:
                        self._one(name, cases[name], bench, benches)
        finally:
            for bench in benches:
                bench.server.stop()

    def _spark(self, name: str, bench: Bench) -> list[Figure]:
        return SPARK_CASES[name](Setting(bench, self._command, self._directory))

    def _one(self, name: str, case: Case, bench: Bench, benches: list[Bench]) -> None:
        """Measures one case on one server while the others are paused."""
        self._note(bench.server.name, name)
        others = [pid for other in benches if other is not bench for pid in other.server.pids]
        try:
            with process.Paused(others):
                figures = case(bench)
        except BenchError as problem:
            self._failures.append(f"{bench.server.name}, {name}: {problem}")
            return
        self._collected.add(bench.server.name, figures)
        self._note(
            bench.server.name, "; ".join(f"{figure.name} {figure.value:,.2f} {figure.unit}" for figure in figures)
        )

    def _note(self, server: str, text: str) -> None:
        print(f"{server}: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
