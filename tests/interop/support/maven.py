"""Resolves jars and compiles the Java programs, once, into the cache.

`mvn dependency:copy-dependencies` reads a generated pom that holds only dependencies. The folder of jars is
complete when its marker file exists; an interrupted download is repeated.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.support.tools import cache_directory, fills_cache, require, run_setup

JAVA_SOURCES = Path(__file__).parent.parent / "java"

ARTIFACT_SETS: dict[str, list[str]] = {
    "server-4.9.7": ["org.apache.rocketmq:rocketmq-namesrv:4.9.7", "org.apache.rocketmq:rocketmq-broker:4.9.7"],
    "client-4.9.8": ["org.apache.rocketmq:rocketmq-client:4.9.8"],
    "client-5.3.3": ["org.apache.rocketmq:rocketmq-client:5.3.3"],
    "client-5.5.0": ["org.apache.rocketmq:rocketmq-client:5.5.0"],
    "signed-4.9.8": ["org.apache.rocketmq:rocketmq-client:4.9.8", "org.apache.rocketmq:rocketmq-acl:4.9.8"],
    # The gRPC client, and the remoting client for messages that cross between the protocols.
    "grpc-5.2.0": ["org.apache.rocketmq:rocketmq-client-java:5.2.0", "org.apache.rocketmq:rocketmq-client:5.3.3"],
    "proxy-5.3.3": ["org.apache.rocketmq:rocketmq-namesrv:5.3.3", "org.apache.rocketmq:rocketmq-proxy:5.3.3"],
    "server-5.3.3": [
        "org.apache.rocketmq:rocketmq-namesrv:5.3.3",
        "org.apache.rocketmq:rocketmq-broker:5.3.3",
        "org.apache.rocketmq:rocketmq-tools:5.3.3",
    ],
    "server-5.5.0": [
        "org.apache.rocketmq:rocketmq-namesrv:5.5.0",
        "org.apache.rocketmq:rocketmq-broker:5.5.0",
        "org.apache.rocketmq:rocketmq-tools:5.5.0",
    ],
}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pymq.interop</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def class_path(artifact_set: str) -> str:
    """Return the class path of one of ARTIFACT_SETS; resolve its jars when they are missing."""
    return os.pathsep.join(str(jar) for jar in sorted(_jar_directory(artifact_set).glob("*.jar")))


@fills_cache
def _jar_directory(artifact_set: str) -> Path:
    coordinates = ARTIFACT_SETS[artifact_set]
    home = cache_directory() / "jars" / artifact_set
    marker = home / "complete"
    listed = "\n".join(coordinates)
    if marker.exists() and marker.read_text() == listed:
        return home / "lib"
    (maven,) = require("mvn")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "pom.xml").write_text(_POM.format(dependencies="".join(_dependency(c) for c in coordinates)))
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    run_setup(f"fetching the jars of {artifact_set} with mvn", command, cwd=home)
    marker.write_text(listed)
    return home / "lib"


def _dependency(coordinate: str) -> str:
    group, artifact, version = coordinate.split(":")
    inner = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{inner}</dependency>"


def compiled(program: str, artifact_set: str) -> str:
    """Return the class path with the compiled sources of java/`program` and their jars."""
    jars = class_path(artifact_set)
    sources = sorted((JAVA_SOURCES / program).rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = cache_directory() / "classes" / f"{program}-{artifact_set}-{digest}"
    _compile(program, artifact_set, jars, sources, classes)
    return os.pathsep.join([str(classes), jars])


@fills_cache
def _compile(program: str, artifact_set: str, jars: str, sources: Sequence[Path], classes: Path) -> None:
    if not classes.exists():
        (javac,) = require("javac")
        building = classes.with_name(f"{classes.name}.{os.getpid()}")
        building.mkdir(parents=True)
        command = [javac, "-nowarn", "-Xlint:none", "-encoding", "UTF-8", "-cp", jars, "-d", str(building)]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
        # The sources are ours: a compile error is a failure, never a skip.
        assert done.returncode == 0, f"javac failed for {program} against {artifact_set}:\n{done.stderr}"
        building.rename(classes)
