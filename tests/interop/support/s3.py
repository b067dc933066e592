"""A local server of S3, and the jars by which Spark's JVM reaches it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from tests.interop.support.tools import unavailable
from tests.interop.support.virtual_environments import python_with

MOTO = "moto[server]==5.2.5"
START_TIMEOUT_S = 60.0
BUCKET = "lake"
# Hadoop's connector, and of Amazon's SDK only what it needs: the bundle has 690 MB. Spark has slf4j itself, and Ivy
# gives up where a local Maven repository knows that version without its jar.
CONF = {
    "spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0,"
    "software.amazon.awssdk:s3-transfer-manager:2.35.4,software.amazon.awssdk:sts:2.35.4",
    "spark.jars.excludes": "software.amazon.awssdk:bundle,org.slf4j:slf4j-api",
    "spark.hadoop.fs.s3a.path.style.access": "true",
}
_PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run a server with one bucket; yield the environment that names it."""
    python = python_with("moto", MOTO)
    server = subprocess.Popen(
        [str(python), "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        if not port:
            unavailable(f"{MOTO} did not start")
        endpoint = f"http://127.0.0.1:{port}"
        with urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=START_TIMEOUT_S) as answer:
            assert answer.status == 200
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(START_TIMEOUT_S)
