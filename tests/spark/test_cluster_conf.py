"""The settings in conf/spark, as Spark's submission and the Kubernetes client read them. No cluster is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pymq.spark.session.masters import check_master

CONF = Path(__file__).parents[2] / "conf" / "spark"
POD = "io.fabric8.kubernetes.api.model.Pod"


def submitted(spark: Any, master: str, directory: str, *more: str) -> dict[str, str]:
    """Return the settings that an application gets which is submitted with a directory's defaults."""
    check_master(master)
    jvm = spark._jvm
    arguments = ["--master", master, "--properties-file", str(CONF / directory / "spark-defaults.conf"), *more]
    environment = {"HADOOP_CONF_DIR": str(CONF), "SPARK_HOME": ""}
    utils = jvm.org.apache.spark.api.python.PythonUtils
    parsed = jvm.org.apache.spark.deploy.SparkSubmitArguments(
        utils.toSeq([*arguments, "pyspark-shell"]), utils.toScalaMap(environment)
    )
    prepared = jvm.org.apache.spark.deploy.SparkSubmit().prepareSubmitEnvironment(parsed, jvm.scala.Option.empty())
    return {pair._1(): pair._2() for pair in prepared._3().getAll()}


def test_yarn_gets_the_packed_environment(spark: Any, tmp_path: Path) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.touch()
    conf = submitted(spark, "yarn", "yarn", "--conf", f"spark.archives={archive}#env")
    assert conf["spark.master"] == "yarn"
    assert conf["spark.submit.deployMode"] == "client"
    assert conf["spark.yarn.dist.archives"].endswith("/env.tar.gz#env")
    assert (conf["spark.executor.instances"], conf["spark.executor.memoryOverhead"]) == ("2", "1g")


def test_kubernetes_gets_image_template_and_driver(spark: Any) -> None:
    conf = submitted(spark, "k8s://https://127.0.0.1:1", "kubernetes")
    assert conf["spark.master"] == "k8s://https://127.0.0.1:1"
    assert conf["spark.submit.deployMode"] == "client"
    assert conf["spark.kubernetes.container.image"].startswith("registry.example.com/")
    assert CONF.parent.parent / conf["spark.kubernetes.executor.podTemplateFile"] == (
        CONF / "kubernetes" / "executor-pod.yaml"
    )


def test_the_pod_template_is_a_pod(spark: Any) -> None:
    jvm = spark._jvm
    text = (CONF / "kubernetes" / "executor-pod.yaml").read_text()
    serialization = jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()
    pod = serialization.unmarshal(text, jvm.java.lang.Class.forName(POD))
    (container,) = pod.getSpec().getContainers()
    assert container.getName() == "spark-kubernetes-executor"
    assert [mount.getName() for mount in container.getVolumeMounts()] == [
        volume.getName() for volume in pod.getSpec().getVolumes()
    ]
    assert not pod.getAdditionalProperties() and not pod.getSpec().getAdditionalProperties()
