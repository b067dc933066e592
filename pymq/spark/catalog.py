"""Topics as tables of a session's catalog, for programs that ask the catalog: SHOW TABLES, BI tools, dbt.

Spark has no catalogs in Python, so each topic is a table ``USING pymq``. Spark's Thrift server, which JDBC and ODBC
speak to, runs in the session's JVM and serves the same catalog.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from pymq.errors import UsageError
from pymq.spark.queries import Tables
from pymq.spark.records.schema import TEXT_USUAL, columns_text
from pymq.spark.session.error_texts import essence
from pymq.spark.session.failures import translated
from pymq.spark.source.sources_of_rows import open_view

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# A Thrift server asks nobody who they are, and SQL reads files.
HOST: Final = "127.0.0.1"
_DIGITS: Final = 6


def table_names(topics: Iterable[str]) -> dict[str, str]:
    """Return the names of tables by topic. Tables have letters in lower case, digits and underscores.

    Topics whose names are equal then have a digest of the topic behind, but the one that needs no change.
    """
    by_name: dict[str, list[str]] = {}
    for topic in sorted(topics):
        by_name.setdefault(re.sub(r"[^a-z0-9_]", "_", topic.lower()), []).append(topic)
    return {
        topic: name if topic == name or len(alike) == 1 else f"{name}_{_digest(topic)}"
        for name, alike in by_name.items()
        for topic in alike
    }


class TopicTables:
    """The tables of a cluster's topics, or of a store directory's, in the database ``default`` of a session."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        self._made: dict[str, str] = {}

    def refresh(self) -> int:
        """Make the tables of new topics and drop those of topics that are gone; return how many there are.

        Raises UnreachableError and what else the look at the topics raises.
        """
        with open_view(self._tables.namesrv, self._tables.settings) as view:
            wanted = {name: topic for topic, name in table_names(view.user_topics()).items()}
        with translated():
            for name in [name for name, topic in self._made.items() if wanted.get(name) != topic]:
                self._spark.sql(f"DROP TABLE IF EXISTS {name}")
                del self._made[name]
            for name in sorted(wanted.keys() - self._made.keys()):
                topic = wanted[name]
                self._spark.sql(_creation(name, topic, self._tables.options_of(topic, columns_text(TEXT_USUAL))))
                self._made[name] = topic
        return len(self._made)

    def run(self, sql: str) -> pa.Table:
        """Return all rows of a query over the tables. Raises UsageError for one that Spark refuses."""
        from pyspark.errors import AnalysisException, ParseException

        with translated():
            try:
                return self._spark.sql(sql).toArrow()
            except (AnalysisException, ParseException) as error:
                raise UsageError(f"the query is refused: {essence(str(error))}") from None


def thrift_settings(port: int) -> dict[str, str]:
    """Return what a session needs to serve its catalog. Raises UsageError when the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UsageError(f"port {port} can't be listened on: {error.strerror}; name another one") from None
    return {
        "spark.hive.server2.thrift.bind.host": HOST,
        "spark.hive.server2.thrift.port": str(port),
        # A server of many users' queries: a new session of Spark for each connection is the default.
        "spark.sql.hive.thriftServer.singleSession": "false",
    }


def start_thrift(spark: SparkSession) -> None:
    """Serve the session's catalog by :func:`thrift_settings`; it ends with the session."""
    with translated():
        server = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        server.startWithSparkSession(spark._jsparkSession, False)


def _creation(name: str, topic: str, options: Mapping[str, str]) -> str:
    given = ", ".join(f"`{key}` {_literal(value)}" for key, value in options.items())
    return f"CREATE TABLE IF NOT EXISTS {name} USING pymq OPTIONS ({given}) COMMENT {_literal(f'topic {topic}')}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _digest(topic: str) -> str:
    return blake2b(topic.encode()).hexdigest()[:_DIGITS]
