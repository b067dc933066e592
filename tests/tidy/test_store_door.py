"""MessageStore is the only door to a store directory: other packages use its public members and a few value modules."""

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.sources import Module, dotted, modules

STORE = "pymq/store/store.py"
# Tools for directories of stopped brokers look at files that an open store would lock.
DIRECTORY_TOOLS = "pymq/offline/"
IMPORTABLE = {
    "pymq.store.store",
    "pymq.store.settings",
    "pymq.store.disk.fs",  # the file seam
    "pymq.store.disk.memory_fs",  # of a broker for tests
    "pymq.store.disk.json_table",
    "pymq.store.disk.saved_tables",
    "pymq.store.disk.timer_checkpoint",
    "pymq.store.disk.workers_file",  # of several directories, before their brokers open them
    "pymq.store.timer.timer_store",  # files beside the log, which the broker's timers fill
    "pymq.store.lifecycle.thaw",  # for a stopped broker
    "pymq.store.replica.closed_log",  # before a broker opens its store
    "pymq.store.replica.divergent_tail",  # truncate_log() and list_truncations(), for a stopped broker
    "pymq.store.replica.epoch_table",
    "pymq.store.replica.tail_refill",
    "pymq.store.queue.batch_queue",
    "pymq.store.queue.consume_queue",  # the handles that a PlainStager gives for queues
}
STORE_NAMES = {"store", "_store"}


def test_other_packages_use_public_members_of_the_store() -> None:
    public = _public_members()
    assert {"stage", "get", "sync", "figures", "settings"} <= public and "_log" not in public
    found = [
        f"{module.name}:{line}: {text}" for module in _outside() for line, text in _reaches_inside(module.tree, public)
    ]
    assert not found, "give MessageStore a method for it"


@pytest.mark.slow
def test_other_packages_import_few_modules_of_the_store() -> None:
    found = {
        f"{module.name}: {name}"
        for module in _outside()
        if not module.name.startswith(DIRECTORY_TOOLS)
        for name in _imports(module.tree)
        if name.startswith("pymq.store.") and name not in IMPORTABLE
    }
    assert not found, "export the value from pymq/store/store.py, or give MessageStore a method"


def test_the_check_finds_what_it_looks_for() -> None:
    tree = ast.parse("self._store.appender.unconfirmed\nparts.store.log\nstore._index\nstore.get\n")
    found = {text for _, text in _reaches_inside(tree, _public_members())}
    assert found == {"self._store.appender", "parts.store.log", "store._index"}


def _outside() -> list[Module]:
    return [module for module in modules() if not module.name.startswith("pymq/store/")]


def _reaches_inside(tree: ast.Module, public: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_store(node.value) and node.attr not in public:
            yield node.lineno, dotted(node)


def _is_store(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in STORE_NAMES


def _public_members() -> set[str]:
    """Return the public names that MessageStore and StoreReader define."""
    names: set[str] = set()
    for module in modules():
        if module.name not in (STORE, "pymq/store/read/store_reader.py"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name in ("MessageStore", "StoreReader"):
                names |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
                names |= {
                    inner.attr
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and dotted(inner.value) == "self"
                }
    return {name for name in names if not name.startswith("_")}


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
