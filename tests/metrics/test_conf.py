"""The Grafana board and the alert rules of conf/ are PromQL, and name only metrics and labels that servers have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.metrics.collector import BROKER_METRICS
from pymq.cli.exporter.own_names import EXPORTER_METRICS, NODE_LABELS
from pymq.cli.main import COMMANDS
from pymq.filterserver.metrics import FILTER_SERVER_METRICS
from pymq.metrics.family import MetricKind
from pymq.metrics.process import ProcessMetrics
from pymq.namesrv.metrics import NAMESRV_METRICS
from pymq.workers.metrics import WorkersMetrics

from .promql import DURATION, VECTOR, PromqlError, check

CONF = Path(__file__).parents[2] / "conf"
BOARD = json.loads((CONF / "grafana" / "pymq.json").read_text(encoding="utf-8"))
RULES = (CONF / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
FUNCTIONS = {
    *("sum", "max", "min", "avg", "count", "topk", "by", "without", "rate", "increase", "predict_linear", "vector"),
    *("histogram_quantile", "or", "and", "unless", "label_values"),
}
SCRAPED = {"instance", "job"}  # labels that Prometheus adds


def known_labels() -> dict[str, set[str]]:
    """Return the labels of every series by its name, as a scrape shows them."""
    found: dict[str, set[str]] = {"up": SCRAPED}
    served = [*BROKER_METRICS, *NAMESRV_METRICS, *FILTER_SERVER_METRICS, *EXPORTER_METRICS, *WorkersMetrics.metrics]
    served += ProcessMetrics().metrics
    for metric in served:
        labels = {*NODE_LABELS, *SCRAPED, *metric.labels}
        found[metric.name] = labels
        if metric.kind is MetricKind.HISTOGRAM:
            found |= {
                metric.name + "_bucket": labels | {"le"},
                metric.name + "_sum": labels,
                metric.name + "_count": labels,
            }
    return found


KNOWN = known_labels()


def problems(expression: str) -> list[str]:
    """Return the names in a PromQL expression that are no metric, and the labels that none of its metrics has."""
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=(?!=))\s*\"", expression))
    plain = re.sub(r"\{[^}]*\}", "", expression)
    for group in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", plain):
        labels |= {label.strip() for label in group.split(",")}
    plain = re.sub(r"\b(by|without)\s*\([^)]*\)", "", plain)
    listed = re.fullmatch(r"label_values\(([^,]+),\s*(\w+)\)", plain)
    if listed:
        labels.add(listed[2])
        plain = listed[1]
    plain = re.sub(r"\[[^]]*\]", "", plain)
    names = set(re.findall(r"\b[a-zA-Z_]\w*", plain)) - FUNCTIONS
    allowed = set().union(*(KNOWN.get(name, set()) for name in names))
    return sorted(names - KNOWN.keys()) + sorted(labels - allowed)


def syntax_problem(expression: str, wanted: str = VECTOR) -> str:
    """Return why an expression is not PromQL with a result of the ``wanted`` type; empty if it is."""
    listed = re.fullmatch(r"label_values\(([^,]+),\s*\w+\)", expression)  # Grafana's own
    try:
        found = check((listed[1] if listed else expression).replace("$__rate_interval", "5m"))
    except PromqlError as error:
        return str(error)
    return "" if found == wanted else f"its result is {found}"


def board_expressions() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
            yield panel["title"] + " (legend)", f"{target['expr']} or sum by ({_labels(target['legendFormat'])}) (up)"
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]


def _labels(legend: str) -> str:
    return ", ".join(re.findall(r"\{\{(\w+)\}\}", legend)) or "instance"


def rules() -> list[dict[str, Any]]:
    """Return the rules: each has one line for its alert, expression, severity, summary and description."""
    found: list[dict[str, Any]] = []
    for line in RULES.splitlines():
        match = re.fullmatch(r"\s+(?:- )?(alert|expr|for|labels|summary|description): (.*)", line)
        if match and match[1] == "alert":
            found.append({"alert": match[2]})
        elif match:
            found[-1][match[1]] = match[2].strip('"')
    return found


@pytest.mark.parametrize(("where", "expression"), list(board_expressions()))
def test_the_board_asks_for_what_servers_have(where: str, expression: str) -> None:
    assert problems(expression) == [], where
    assert syntax_problem(expression) == "", where


def test_the_board_is_complete() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["type"] for panel in panels} == {"row", "stat", "timeseries"}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places), "no two panels cover each other"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    text = json.dumps(BOARD)
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", text)) == variables


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_asks_for_what_servers_have_and_names_the_next_step(rule: dict[str, Any]) -> None:
    assert problems(rule["expr"]) == []
    assert syntax_problem(rule["expr"]) == ""
    assert DURATION.fullmatch(rule.get("for", "0s"))
    assert re.fullmatch(r"\{severity: (warning|critical)\}", rule["labels"])
    assert re.fullmatch(r"Pymq[A-Za-z]+", rule["alert"])
    assert len(rule["summary"]) > 10 and len(rule["description"]) > 20
    kept = set(re.findall(r"\$labels\.(\w+)", rule["summary"] + rule["description"]))
    assert problems(f"{rule['expr']} or sum by ({', '.join(kept) or 'instance'}) (up)") == []
    aggregated = re.match(r"(?:sum|max) by \(([^)]*)\)", rule["expr"])
    assert aggregated is None or kept <= {label.strip() for label in aggregated[1].split(",")}
    for command in re.findall(r"pymq ([a-z-]+)", rule["description"]):
        assert command in COMMANDS


def test_the_rules_are_yaml_with_unique_names() -> None:
    yaml = pytest.importorskip("yaml")
    parsed = yaml.safe_load(RULES)
    names = [rule["alert"] for group in parsed["groups"] for rule in group["rules"]]
    assert names == [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for group in parsed["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert DURATION.fullmatch(rule.get("for", "0s"))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH; the checks above are our own")
def test_promtool_accepts_the_rules() -> None:
    path = CONF / "prometheus" / "alerts.yml"
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["", "5", "m5", "5 m", "5x", "-5m", "1.5m"])
def test_other_durations_are_refused(text: str) -> None:
    assert DURATION.fullmatch(text) is None


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("up ==", "ends too early"),
        ("sum(up", "where ')' is expected"),
        ("sum by cluster (up)", "where '(' is expected"),
        ("rate(up)", "rate takes a range vector"),
        ("rate(up[5])", "needs a duration"),
        ("up[5m] > 1", "takes no range vector"),
        ("up or 1", "instant vectors alone"),
        ("1 == 1", "needs bool"),
        ("1 > bool 2", "its result is a scalar"),
        ("up[5m]", "its result is a range vector"),
        ("topk(up)", "topk takes a scalar"),
        ('up{job=~"("}', "is no regular expression"),
        ("up{job=pymq}", "is no matcher"),
        ("up == on (a) 1", "match two instant vectors"),
        ("sum(by)", "is no operand"),
        ("up > 0or up", "is no token"),
        ("up up", "follows a whole expression"),
        ("sum(up) & up", "is no token"),
        ("increases(up[5m])", "is no function"),
        ('-sum by (a) (up{b!="x",}) / on (a) group_left max without (b) (up) ^ 2 > bool 1.5 unless up', ""),
    ],
)
def test_what_is_not_promql_is_found(expression: str, problem: str) -> None:
    found = syntax_problem(expression)
    assert problem in found and bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("sum by (cluster) (pymq_nonsense)", ["pymq_nonsense", "cluster"]),
        ('pymq_store_writable{topic="a"} == 0', ["topic"]),
        ("label_values(pymq_store_writable, queue)", ["queue"]),
        ("histogram_quantile(0.9, sum by (le) (rate(pymq_store_flush_seconds_bucket[5m])))", []),
        ('rate(rocketmq_messages_in_total{topic=~"$topic",cluster!="x"}[$__rate_interval]) > 5', []),
    ],
)
def test_the_check_finds_wrong_names_and_labels(expression: str, wrong: list[str]) -> None:
    assert problems(expression) == wrong
