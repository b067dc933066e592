"""Commands that are new in mqadmin 5.5.0: those of lite topics, topics and groups work, the other one is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.wire.codes import RequestCode as Code
from tests.interop.support import probe
from tests.interop.support.mqadmin import MqAdmin
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.second_runs import SecondRuns

# The words after a command. `$b` stands for the broker's address.
REFUSED = {
    "switchTimerEngine": (Code.SWITCH_TIMER_ENGINE, "-b $b -e R"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PymqServer]:
    started = PymqServer(tmp_path_factory.mktemp("mqadmin-5.5-server"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def admin(server: PymqServer, second_runs: SecondRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    driver = MqAdmin(server.namesrv, tmp_path_factory.mktemp("mqadmin-5.5"), second_runs, "server-5.5.0")
    driver.run("clusterList")  # the first command of a JVM also prints the start of the logging library
    where = ["-n", server.namesrv, "-b", server.broker]
    made = driver.run("updateTopic", *where, "-t", "New55", "-a", "+message.type=PRIORITY")
    assert "create topic" in made and "PRIORITY" in made, made
    yield driver
    driver.close()


@pytest.mark.parametrize("command", REFUSED)
def test_what_pymq_lacks_is_refused_with_the_reason(admin: MqAdmin, server: PymqServer, command: str) -> None:
    code, words = REFUSED[command]
    printed = admin.run(command, "-n", server.namesrv, *words.replace("$b", server.broker).split())
    assert REFUSED_CODES[code] in printed, printed


def test_lite_topics_are_looked_up(admin: MqAdmin, server: PymqServer) -> None:
    b, n = server.broker, server.namesrv
    attributes = "+message.type=LITE,+lite.topic.expiration=90"
    assert "create topic" in admin.run("updateTopic", "-n", n, "-b", b, "-t", "Lite55", "-a", attributes)
    text = "UNIQ_KEY\x01AB\x02__LITE_TOPIC\x01l\x02"
    header = {"a": "PG", "b": "Lite55", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": text}
    assert probe.call(b, 310, header, b"m").code == 0
    of_broker = admin.run("getBrokerLiteInfo", "-n", n, "-b", b).splitlines()
    assert of_broker[-1].split() == [b, "default", "1000000", "1", "0", "0", "1", "0", "0"]
    of_parent = admin.run("getParentTopicInfo", "-n", n, "-p", "Lite55").splitlines()
    assert of_parent[-1].split() == [server.broker_name, "90", "1", "1", "null"]
    of_lite = admin.run("getLiteTopicInfo", "-n", n, "-p", "Lite55", "-l", "l").splitlines()
    name, least, end, *_, is_here, client_count = of_lite[-1].split()
    assert (name, least, end, is_here, client_count) == (server.broker_name, "0", "1", "true", "0")
    made = admin.run("updateSubGroup", "-n", n, "-b", b, "-g", "G55", "--attributes", "+lite.bind.topic=Lite55")
    assert "create subscription group" in made and "lite.bind.topic" in made, made
    of_client = admin.run("getLiteClientInfo", "-n", n, "-p", "Lite55", "-g", "G55", "-c", "nobody")
    assert server.broker_name in of_client and "error" not in of_client.lower(), of_client
    of_group = admin.run("getLiteGroupInfo", "-n", n, "-p", "Lite55", "-g", "G55", "-l", "l")
    assert server.broker_name in of_group and "error" not in of_group.lower(), of_group
    trigger = admin.run("triggerLiteDispatch", "-n", n, "-p", "Lite55", "-g", "G55")
    assert server.broker_name in trigger and "error" not in trigger.lower(), trigger


def test_topics_and_groups_are_made_listed_and_deleted(admin: MqAdmin, server: PymqServer) -> None:
    b, n = server.broker, server.namesrv
    made = admin.run("updateSubGroup", "-n", n, "-b", b, "-g", "Group55", "--attributes", "+priority.factor=40")
    assert "create subscription group" in made and "priority.factor" in made, made
    refused = admin.run("updateSubGroup", "-n", n, "-b", b, "-g", "Group55", "--attributes", "+priority.factor=101")
    assert "0 to 100" in refused, refused
    assert "New55" in admin.run("topicList", "-n", n)
    assert "delete topic [New55]" in admin.run("deleteTopic", "-n", n, "-c", server.cluster, "-t", "New55")
    assert "New55" not in admin.run("topicList", "-n", n)
    assert "delete subscription group [Group55]" in admin.run("deleteSubGroup", "-n", n, "-b", b, "-g", "Group55")
