"""Java's client 5.3.3 and mqadmin at a secured PyMQ: right, wrong and missing credentials, and a retry."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.support.maven import compiled
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.tools import own_places, require

TOPIC, GROUP = "SignedOrders", "signed_billing"
ACL = f"""
accounts:
- {{accessKey: administrator, secretKey: administrator-secret, admin: true}}
- {{accessKey: producer, secretKey: producer-secret, topicPerms: [{TOPIC}=PUB]}}
- {{accessKey: consumer, secretKey: consumer-secret, topicPerms: [{TOPIC}=SUB], groupPerms: [{GROUP}=SUB]}}
"""


def test_javas_clients_and_mqadmin_are_served_by_their_signatures(tmp_path: Path) -> None:
    (java,) = require("java")
    classes = compiled("signed", "server-5.3.3")
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(ACL)
    acl.chmod(0o600)
    server = PymqServer(tmp_path, {"aclEnable": "true", "plainAclFile": str(acl)})
    try:
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *own_places(tmp_path)]
        flags += [f"-Drocketmq.client.logRoot={tmp_path}/logs", f"-Drocketmq.home.dir={tmp_path}"]
        command = [java, *flags, "-cp", classes, "interop.SignedMain", server.namesrv, TOPIC, GROUP]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        server.stop()
    results = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert results["right"] == "SEND_OK", done.stdout + done.stderr
    # The name server refuses the route, and Java's client says only that it has none.
    for sender in ("wrong-secret", "unknown-user", "unsigned"):
        assert results[sender].startswith(("10005 No route info of this topic", "10004 No name server address", "16 "))
    refused = f"User:consumer has no permission to access Topic:{TOPIC} from 127.0.0.1, no matched policies."
    assert results["not-allowed"].startswith("16 ") and refused in results["not-allowed"]
    assert results["consumed"] == "right 1"
    lists = done.stdout.partition("admin-right:")[2].partition("admin-wrong:")
    assert TOPIC in lists[0].split() and TOPIC not in lists[2].split()
