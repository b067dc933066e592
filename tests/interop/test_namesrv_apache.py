"""A real Apache broker registers at PyMQ's and Apache's name servers: both must give the same answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support import probe
from tests.interop.support.apache import BROKER_NAME, ApacheServer
from tests.interop.support.process import Server

REPOSITORY = Path(__file__).parent.parent.parent


class ApacheAtBoth(ApacheServer):
    """The Apache broker with a second name server; ready when that one knows it too."""

    def __init__(self, directory: Path, pymq_namesrv: str) -> None:
        self.pymq_namesrv = pymq_namesrv
        super().__init__(directory)

    def _broker_settings(self, port: int) -> dict[str, str]:
        return {**super()._broker_settings(port), "namesrvAddr": f"{self.namesrv};{self.pymq_namesrv}"}

    def _registered(self) -> bool:
        return super()._registered() and probe.call(self.pymq_namesrv, probe.GET_ROUTE, {"topic": "TBW102"}).code == 0


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheAtBoth]:
    directory = tmp_path_factory.mktemp("namesrv")
    command = [sys.executable, "-m", "pymq", "namesrv", "--port", "0", "--json"]
    namesrv = Server("pymq", command, directory, env={"PYTHONPATH": str(REPOSITORY)})
    try:
        assert namesrv.process.stdout is not None
        address = json.loads(namesrv.process.stdout.readline())["namesrv"]
        apache = ApacheAtBoth(tmp_path_factory.mktemp("apache-at-both"), address)
        yield apache
        apache.stop()
    finally:
        namesrv.stop()


def ask_both(both: ApacheAtBoth, code: int, ext: dict[str, str] | None = None) -> tuple[probe.Reply, probe.Reply]:
    return probe.call(both.namesrv, code, ext), probe.call(both.pymq_namesrv, code, ext)


@pytest.mark.parametrize("topic", ["TBW102", "DefaultCluster", BROKER_NAME, "BenchmarkTest", "SCHEDULE_TOPIC_XXXX"])
def test_routes_are_the_same(both: ApacheAtBoth, topic: str) -> None:
    apache, pymq = ask_both(both, probe.GET_ROUTE, {"topic": topic})
    assert (apache.code, pymq.code) == (0, 0)
    assert json.loads(pymq.body) == json.loads(apache.body)


def test_cluster_info_is_the_same_byte_for_byte(both: ApacheAtBoth) -> None:
    apache, pymq = ask_both(both, probe.GET_CLUSTER_INFO)
    assert pymq.body == apache.body


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (206, {}),
        (224, {"cluster": "DefaultCluster"}),
        (224, {"cluster": "nowhere"}),
        (304, {}),
        (311, {}),
        (312, {}),
        (313, {}),
    ],
)
def test_topic_lists_are_the_same(both: ApacheAtBoth, code: int, ext: dict[str, str]) -> None:
    def meaning(reply: probe.Reply) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(reply.body)
        return {**value, "topicList": sorted(value["topicList"])}

    apache, pymq = ask_both(both, code, ext)
    assert (pymq.code, meaning(pymq)) == (apache.code, meaning(apache))


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (101, {"namespace": "n", "key": "k"}),
        (100, {"namespace": "n", "key": "k", "value": "v"}),
        (101, {"namespace": "n", "key": "k"}),
        (219, {"namespace": "n"}),
        (219, {"namespace": "other"}),
        (102, {"namespace": "n", "key": "k"}),
        (101, {"namespace": "n", "key": "k"}),
        (901, {"clusterName": "DefaultCluster", "brokerName": BROKER_NAME}),
        (901, {"clusterName": "DefaultCluster", "brokerName": "unknown"}),
        (904, {"clusterName": "DefaultCluster", "brokerAddr": "127.0.0.1:1", "brokerName": "unknown"}),
        (205, {"brokerName": "unknown"}),
        (327, {"brokerName": "unknown"}),
        (216, {"topic": "nothing"}),
        (105, {"topic": "nothing"}),
        (310, {}),
    ],
)
def test_other_answers_have_the_same_code_fields_and_body(both: ApacheAtBoth, code: int, ext: dict[str, str]) -> None:
    apache, pymq = ask_both(both, code, ext)
    assert (pymq.code, pymq.ext, pymq.body) == (apache.code, apache.ext, apache.body)


def test_a_new_topic_and_wiped_permissions_show_at_both(both: ApacheAtBoth) -> None:
    probe.create_topic(both.pymq_namesrv, both.broker, "side-by-side", queues=3)
    probe.wait_until(
        "the topic at Apache's", lambda: probe.call(both.namesrv, 105, {"topic": "side-by-side"}).code == 0
    )
    assert probe.route(both.pymq_namesrv, "side-by-side") == probe.route(both.namesrv, "side-by-side")
    for code in (205, 327):
        apache, pymq = ask_both(both, code, {"brokerName": BROKER_NAME})
        assert pymq.ext == apache.ext
        assert probe.route(both.pymq_namesrv, "side-by-side") == probe.route(both.namesrv, "side-by-side")
