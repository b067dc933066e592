"""The source keeps its own rules: a docstring each, small modules, no clock, file, timer or chance out of thin air."""

import ast

import pytest

from tests.tidy.sources import Module, dotted, module_names, modules

# A longer module says in LONGER why its lines belong together; none may be longer than the limit.
LINES_ASKED_ABOVE = 500
LINES_MAX = 800
# Module -> why its lines belong together.
LONGER = {
    "pymq/proxy/rpc/connection.py": "the calls of one connection share its state from the first byte to the last",
    "pymq/store/store.py": "the store's one door: it hands each call to the part that does the work",
}

CORE = (
    "pymq/model/", "pymq/wire/", "pymq/raft/", "pymq/security/", "pymq/store/", "pymq/broker/", "pymq/namesrv/",
)  # fmt: skip
# The real implementations of the file seams: the store's, and that of files with secrets.
FILE_SEAM = (
    "pymq/store/disk/fs.py",
    "pymq/store/disk/regular_files.py",
    "pymq/store/disk/whole_sync.py",
    "pymq/security/audit_file.py",
    "pymq/security/local_secret.py",
    "pymq/security/private_file.py",
)
# What puts the parts together and runs periodic work; nothing else in the core knows an event loop.
COMPOSITION_ROOTS = (
    "pymq/broker/assembly/broker.py",
    "pymq/broker/awaiting.py",
    "pymq/broker/assembly/farewell.py",
    "pymq/broker/assembly/raft_hosting.py",
    "pymq/broker/assembly/registering.py",
    "pymq/broker/work/jobs.py",
    "pymq/namesrv/server.py",
)

CLOCK_CALLS = {"time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.sleep"}
CLOCK_CALLS |= {"datetime.now", "datetime.utcnow", "datetime.datetime.now", "datetime.datetime.utcnow"}
TIMERS = {"call_later", "call_at"}
FILE_CALLS = {
    "open",
    "io.open",
    "os.open",
    "os.remove",
    "os.unlink",
    "os.rename",
    "os.replace",
    "os.mkdir",
    "os.makedirs",
}
FILE_CALLS |= {
    "os.stat",
    "os.listdir",
    "os.scandir",
    "os.fsync",
    "os.truncate",
    "os.rmdir",
    "shutil.rmtree",
    "mmap.mmap",
}
FILE_MODULES = {"pathlib", "shutil", "tempfile", "mmap"}


def core_names() -> list[str]:
    """Return the names of the core's modules without parsing them: each process that collects tests asks."""
    return [name for name in module_names() if name.startswith(CORE)]


def core_modules() -> list[Module]:
    return [module for module in modules() if module.name.startswith(CORE)]


def test_every_module_says_why_it_exists() -> None:
    silent = [module.name for module in modules() if not ast.get_docstring(module.tree)]
    assert not silent


def test_modules_stay_small() -> None:
    long = {module.name: module.line_count for module in modules() if module.line_count > LINES_ASKED_ABOVE}
    assert set(long) <= set(LONGER), f"over {LINES_ASKED_ABOVE} lines: {long}; split it, or say in LONGER why not"
    assert not {name: count for name, count in long.items() if count > LINES_MAX}, f"over {LINES_MAX} lines: split it"


def test_the_list_of_longer_modules_is_true() -> None:
    long = {module.name for module in modules() if module.line_count > LINES_ASKED_ABOVE}
    assert set(LONGER) == long & set(LONGER)
    assert all(LONGER.values())


@pytest.mark.parametrize("name", core_names())
def test_core_gets_clock_and_files_from_its_caller(name: str) -> None:
    module = next(module for module in modules() if module.name == name)
    found = [f"line {line}: {what}" for line, what in _seam_breaks(module)]
    assert not found, f"{module.name}: take it through the constructor instead"


@pytest.mark.slow
def test_asyncio_is_known_to_composition_roots_only() -> None:
    knowing = [
        module.name
        for module in core_modules()
        if module.name not in COMPOSITION_ROOTS and "asyncio" in _imported_at_run_time(module.tree)
    ]
    assert not knowing


def test_the_check_finds_what_it_looks_for() -> None:
    text = "import time, random, os\ntime.time()\nopen('x')\nrandom.random()\nos.remove('x')\nloop.call_later(1, f)\n"
    assert len(_seam_breaks(Module("pymq/store/x.py", text, ast.parse(text)))) == 5


def _seam_breaks(module: Module) -> list[tuple[int, str]]:
    breaks: list[tuple[int, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _is_forbidden(dotted(node.func), module.name):
            breaks.append((node.lineno, dotted(node.func)))
    if module.name not in FILE_SEAM:
        breaks += [(1, f"import {name}") for name in _imported_at_run_time(module.tree) & FILE_MODULES]
    return breaks


def _is_forbidden(call: str, module_name: str) -> bool:
    if call in CLOCK_CALLS:
        return True
    if call.rpartition(".")[2] in TIMERS:
        return module_name not in COMPOSITION_ROOTS
    if call.startswith("random."):
        # Making a generator is fine where it is handed on; the module's own hidden one is not.
        return call not in ("random.Random", "random.SystemRandom")
    return call in FILE_CALLS and module_name not in FILE_SEAM


def _imported_at_run_time(tree: ast.Module) -> set[str]:
    """Return top-level names of imported packages, without those imported only for type checkers."""
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and dotted(node.test) in _TYPE_CHECKING
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


# What makes a temporary file or directory under a name that nobody can guess, for its owner alone.
SAFE_TEMPORARY = {"tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile"}
# Looks for directories of processes that were killed, and takes only those that it can lock.
SEES_TEMPORARY = {"pymq/spark/session/gateway.py": {"tempfile.gettempdir"}}


def test_names_of_temporary_files_can_not_be_guessed() -> None:
    for module in modules():
        if "tempfile" not in module.text:
            continue
        used = {dotted(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
        used = {name for name in used if name.startswith("tempfile.")}
        taken = {node.module for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom)}
        assert used <= SAFE_TEMPORARY | SEES_TEMPORARY.get(module.name, set()), module.name
        assert "tempfile" not in taken, f"{module.name}: import tempfile itself, so that this test sees what is used"
