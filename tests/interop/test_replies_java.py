"""Request and reply between Java's clients that sign as users, at a PyMQ that checks them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pymq.client import Credentials
from pymq.client.sync import Admin
from pymq.model.tables import TopicConfig
from tests.interop.support.maven import compiled
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.tools import own_places, require

TOPIC, GROUP = "Asked", "answering"
ACL = f"""
accounts:
- {{accessKey: administrator, secretKey: administrator-secret, admin: true}}
- {{accessKey: requester, secretKey: requester-secret, topicPerms: [{TOPIC}=PUB]}}
- {{accessKey: replier, secretKey: replier-secret, topicPerms: [{TOPIC}=SUB], groupPerms: [{GROUP}=SUB]}}
- {{accessKey: storing, secretKey: storing-secret, topicPerms: [{TOPIC}=SUB, DefaultCluster_REPLY_TOPIC=PUB],
   groupPerms: [{GROUP}=SUB]}}
"""


@pytest.mark.parametrize("artifact_set", ["signed-4.9.8", "server-5.3.3"])
def test_a_request_is_answered_by_who_may_consume_it(tmp_path: Path, artifact_set: str) -> None:
    (java,) = require("java")
    classes = compiled("replies", artifact_set)
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(ACL)
    acl.chmod(0o600)
    server = PymqServer(tmp_path, {"aclEnable": "true", "plainAclFile": str(acl)})
    try:
        credentials = Credentials("administrator", "administrator-secret")
        with Admin(namesrv=server.namesrv, credentials=credentials) as admin:
            admin.topics.put(server.broker, TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *own_places(tmp_path)]
        flags += [f"-Drocketmq.client.logRoot={tmp_path}/logs"]
        users = ["requester", "replier", "storing"]
        command = [java, *flags, "-cp", classes, "interop.Replies", server.namesrv, TOPIC, GROUP, *users]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        server.stop()
    lines = set(done.stdout.splitlines())
    for user in users[1:]:
        assert f"requester {user}: pong for ping" in lines, done.stdout + done.stderr
        assert f"replier {user}: SEND_OK" in lines, done.stdout + done.stderr
