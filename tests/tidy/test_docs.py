"""Conf files, the table of request codes and the list of metrics say what there is."""

import re
import sys
from dataclasses import astuple

import pytest

from pymq.broker.metrics.collector import BROKER_METRICS
from pymq.cli.exporter.own_names import EXPORTER_METRICS
from pymq.cli.mirror.figures import MIRROR_METRICS
from pymq.config import BrokerConfig, Config, NamesrvConfig
from pymq.config.base import format_value
from pymq.console.metrics import ConsoleMetrics
from pymq.filterserver.metrics import FILTER_SERVER_METRICS
from pymq.metrics.exposition import LEFT_OUT
from pymq.metrics.process import ProcessMetrics
from pymq.namesrv.metrics import NAMESRV_METRICS
from pymq.pipeline.metrics import PIPELINE_METRICS
from pymq.proxy.metrics import PROXY_METRICS
from pymq.spark.session.query_figures import SPARK_METRICS
from pymq.wire.codes import RequestCode
from pymq.workers.metrics import WorkersMetrics
from tests.tidy.sources import ROOT

PICTURE_BYTES_MAX = 64 * 1024
FIGURES_BYTES_MAX = 20 * 1024


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_request_code_is_documented() -> None:
    text = document("compatibility.md")
    codes = {name: value for name, value in vars(RequestCode).items() if isinstance(value, int)}
    assert codes
    assert not [f"{name} {value}" for name, value in codes.items() if not re.search(rf"(?<!\d){value}(?!\d)", text)]


@pytest.mark.parametrize(("file", "config"), [("broker.conf", BrokerConfig), ("namesrv.conf", NamesrvConfig)])
def test_conf_files_hold_every_key_with_its_default(file: str, config: type[Config]) -> None:
    lines = (ROOT / "conf" / file).read_text(encoding="utf-8").splitlines()
    written = dict(line[1:].split("=", 1) for line in lines if re.match(r"#[\w.]+=", line))
    assert written == {name: format_value(row.default) for name, row in config.settings().items()}


@pytest.mark.parametrize("file", ["broker.conf", "namesrv.conf"])
def test_conf_files_set_nothing_themselves(file: str) -> None:
    lines = (ROOT / "conf" / file).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line and not line.startswith("#")]


@pytest.mark.skipif(sys.platform != "linux", reason="the process's figures are those of Linux")
def test_every_metric_is_documented_as_it_is() -> None:
    row = re.compile(r"^\| `(\w+)` \| (gauge|counter|histogram) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
    documented = [
        (name, kind, unit, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, unit, labels, meaning in row.findall(document("metrics.md"))
    ]
    assert len(set(documented)) == len(documented)
    metrics = {
        *BROKER_METRICS,
        *NAMESRV_METRICS,
        *FILTER_SERVER_METRICS,
        *ConsoleMetrics.metrics,
        *PROXY_METRICS,
        *PIPELINE_METRICS,
        *SPARK_METRICS,
        *EXPORTER_METRICS,
        *MIRROR_METRICS,
        *WorkersMetrics.metrics,
        LEFT_OUT,
        *ProcessMetrics().metrics,
    }
    assert set(documented) == set(map(astuple, metrics))


@pytest.mark.parametrize(
    "name", ["ARCHITECTURE.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_modules_that_are_named_are_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    folders = [ROOT / top for top in ("pymq", "client", "tests", "plugins")]
    there = [path.as_posix() for path in (*ROOT.glob("*.py"), *(path for top in folders for path in top.rglob("*.py")))]
    assert not [module for module in sorted(named) if not any(path.endswith(f"/{module}") for path in there)]


def test_pictures_of_the_console_are_small_and_each_is_shown() -> None:
    page = (ROOT / "docs" / "console-pages.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\(console-pages/([a-z-]+\.webp)\)", page)
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs" / "console-pages").iterdir()}
    assert sorted(shown) == sorted(pictures) and len(shown) > 40
    assert max(pictures.values()) <= PICTURE_BYTES_MAX


@pytest.mark.parametrize("name", ["performance.md", "testing.md"])
def test_pages_of_figures_are_read_as_a_whole(name: str) -> None:
    """Old figures go when new ones come."""
    size = len((ROOT / "docs" / name).read_bytes())
    assert size <= FIGURES_BYTES_MAX, f"{size} bytes: leave out what is old, or says the same as another row"
