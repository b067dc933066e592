"""The console's figures are those of its parts."""

from __future__ import annotations

from pymq.console.metrics import ConsoleMetrics
from pymq.console.web.counting import Counted
from tests.console.asgi import request
from tests.console.test_app import FORM, World


def test_answers_sessions_failures_and_questions_are_counted() -> None:
    world = World()
    counted = Counted(world.app)
    shell = world.shell
    metrics = ConsoleMetrics(
        "http://127.0.0.1:8082", counted, shell.sessions, shell.log_ins, shell.clusters, world.streams
    )
    world.streams.open("reader")
    request(counted, "/at/prod/things")
    request(counted, "/none")
    body = b"name=reader&secret="
    for secret in (b"right", b"wrong"):
        request(counted, "/at/prod/login", method="POST", headers=FORM, body=body + secret)
    found = {family.metric.name: list(family.readings) for family in metrics.collect()}
    assert {family.metric for family in metrics.collect()} == set(metrics.metrics)
    assert [(each.labels, each.value) for each in found["pymq_console_answers_total"]] == [
        (("200",), 1),
        (("303",), 1),
        (("403",), 1),
        (("404",), 1),
    ]
    for name, value in (
        ("sessions", 1),
        ("log_in_failures_total", 1),
        ("clients", 1),
        ("questions_total", 0),
        ("kept_answers_bytes", 0),
        ("streams", 1),
    ):
        (reading,) = found[f"pymq_console_{name}"]
        assert reading.value == value, name
    assert metrics.labels() == {"node_id": "http://127.0.0.1:8082", "node_type": "console"}
