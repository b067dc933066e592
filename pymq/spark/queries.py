"""SQL over topics and lakes: finds the tables that a query names, and reads only the columns that it needs.

Spark tells Python sources neither columns nor tables. So a query is analyzed twice: first over empty tables with all
columns, which shows what is needed, then over the sources with the needed columns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pymq.errors import NotFoundError, UnreachableError, UsageError
from pymq.spark.lake.commits import FOLDER, earlier_settings
from pymq.spark.lake.parquet_parts import safe_name
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.records.schema import BY_NAME, PROPERTY_PREFIX, USUAL, columns_text, spark_ddl
from pymq.spark.session.failures import translated
from pymq.spark.settings import DataLoss
from pymq.spark.source.sources_of_rows import open_view

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_TOPIC_LEVEL = "topic="
_NAMES_SHOWN_MAX = 10
# Each round finds one table or one column.
_ROUNDS_MAX = 200
# What needs the fewest bytes when a query needs no column, as count(*).
_CHEAPEST = ("queueOffset",)


@dataclass(slots=True, frozen=True)
class Tables:
    """Where tables come from: lakes first, then the topics of a cluster or a store directory."""

    namesrv: str
    credentials: str = ""
    place: StorePlace | None = None
    lakes: tuple[Path, ...] = ()
    on_data_loss: DataLoss = "fail"
    registry: str = ""
    """The URL of the schema registry for the column ``bodyJson``."""

    @property
    def settings(self) -> ReadSettings:
        """How the topics are looked at."""
        return ReadSettings(credentials=self.credentials, store=self.place, retry_budget_s=0)

    def options_of(self, topic: str, columns: str) -> dict[str, str]:
        """Return the options of ``format("pymq")`` for a topic."""
        options = {"topics": topic, "columns": columns, "pushFilters": "true", "onDataLoss": self.on_data_loss}
        if self.registry:
            options["registry"] = self.registry
        if self.place is not None:
            return options | self.place.options()
        return options | {"namesrv": self.namesrv, "credentials": self.credentials}


class TableUse(NamedTuple):
    """One table of a query: its name, its kind, the columns that are read, and the conditions on its rows."""

    name: str
    source: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(slots=True)
class _Topic:
    """A topic in a query; ``extra``: columns besides the usual ones that the query names."""

    name: str
    extra: list[str] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*USUAL, *self.extra)


class Query:
    """One SQL query. Raises UsageError and NotFoundError with one line for what the query or its tables lack."""

    def __init__(self, spark: SparkSession, tables: Tables, sql: str) -> None:
        self._spark = spark
        self._tables = tables
        self._sql = sql
        self._topics: dict[str, _Topic] = {}
        self._lakes: dict[str, Path] = {}
        try:
            self._needed = self._columns_of(self._analyzed())
            self._frame = self._over_sources()
        except BaseException:
            self._drop_tables()
            raise

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop_tables()

    def _drop_tables(self) -> None:
        for name in (*self._topics, *self._lakes):
            self._spark.catalog.dropTempView(name)

    @property
    def uses(self) -> list[TableUse]:
        """The tables of the query."""
        lakes = [TableUse(name, f"lake {lake}", (), ()) for name, lake in self._lakes.items()]
        return [*self._needed.values(), *lakes]

    def run(self) -> pa.Table:
        """Return all rows. Raises what the readers raise."""
        with translated():
            return self._frame.toArrow()

    def plan(self) -> str:
        """Return Spark's plan."""
        with translated():
            return str(self._frame._jdf.queryExecution().executedPlan().toString())

    def _over_sources(self) -> DataFrame:
        from pyspark.errors import AnalysisException

        self._register_sources()
        try:
            return self._with_errors()
        except AnalysisException:
            # A column that is needed where the plan doesn't show it.
            self._needed = {
                name: use._replace(columns=self._topics[name].columns) for name, use in self._needed.items()
            }
            self._register_sources()
            return self._with_errors()

    def _register_sources(self) -> None:
        for topic in self._topics.values():
            self._register(topic.name, self._topic_frame(topic, self._needed[topic.name].columns))

    # -- tables -------------------------------------------------------------------------------------------------

    def _analyzed(self) -> DataFrame:
        """Make the tables that the query names, empty tables for topics, and return the query over them."""
        from pyspark.errors import AnalysisException

        for _ in range(_ROUNDS_MAX):
            try:
                return self._with_errors()
            except AnalysisException as error:
                self._add_what_is_missing(error)
        raise UsageError(f"the query names more than {_ROUNDS_MAX} tables and columns: split it")

    def _with_errors(self) -> DataFrame:
        from pyspark.errors import ParseException

        try:
            with _quiet():
                return self._spark.sql(self._sql)
        except ParseException as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise UsageError(f"the query is not SQL: {_one_line(lines[0])}") from None

    def _add_what_is_missing(self, error: Any) -> None:
        parameters = error.getMessageParameters() or {}
        condition = str(error.getCondition() or "")
        if condition == "TABLE_OR_VIEW_NOT_FOUND":
            self._add_table(_unquoted(parameters["relationName"]))
        elif condition.startswith("UNRESOLVED_COLUMN"):
            self._add_column(_unquoted(parameters["objectName"]))
        else:
            raise UsageError(f"the query is refused: {_one_line(str(error).splitlines()[0])}") from None

    def _add_table(self, name: str) -> None:
        lake = next((one for one in self._tables.lakes if name in self._lake_topics(one)), None)
        if lake is not None:
            self._lakes[name] = lake
            self._register(name, self._lake_frame(lake, name))
            return
        if name not in self._source_topics:
            raise NotFoundError(self._unknown_table(name))
        self._topics[name] = _Topic(name)
        self._register(name, self._empty(self._topics[name]))

    def _add_column(self, written: str) -> None:
        name = written.rpartition(".")[2]
        known = {one.lower(): one for one in BY_NAME}
        column = known.get(name.lower(), name if name.startswith(PROPERTY_PREFIX) else "")
        lacking = [topic for topic in self._topics.values() if column and column not in topic.columns]
        if not lacking or name == PROPERTY_PREFIX:
            names = [one for topic in self._topics.values() for one in topic.columns]
            names += [one for table in self._lakes for one in self._spark.table(_quoted(table)).columns]
            raise UsageError(f"there is no column {written}: {_nearest(name, names)}")
        for topic in lacking:
            topic.extra.append(column)
            self._register(topic.name, self._empty(topic))

    def _unknown_table(self, name: str) -> str:
        known = [*self._source_topics, *(topic for lake in self._tables.lakes for topic in self._lake_topics(lake))]
        return f"there is no table {name}: {_nearest(name, known)}"

    @cached_property
    def _source_topics(self) -> list[str]:
        try:
            with open_view(self._tables.namesrv, self._tables.settings) as view:
                return view.all_topics()
        except UnreachableError:
            if not self._tables.lakes:
                raise
            return []  # lakes are read without a cluster

    def _lake_topics(self, lake: Path) -> list[str]:
        if not (lake / FOLDER).is_dir():
            raise UsageError(f"{lake} is no lake: name the output of pymq spark-export")
        if "topic" not in earlier_settings(lake).get("partition_by", ()):
            raise UsageError(f"{lake} has no directories by topic: export with topic in --partition-by")
        paths = [path.name for path in lake.iterdir() if path.name.startswith(_TOPIC_LEVEL)]
        return sorted(unquote(name.removeprefix(_TOPIC_LEVEL)) for name in paths)

    # -- frames -------------------------------------------------------------------------------------------------

    def _empty(self, topic: _Topic) -> DataFrame:
        return self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), spark_ddl(topic.columns))

    def _topic_frame(self, topic: _Topic, columns: Sequence[str]) -> DataFrame:
        options = self._tables.options_of(topic.name, columns_text(columns))
        return self._spark.read.format("pymq").options(**options).load()

    def _lake_frame(self, lake: Path, topic: str) -> DataFrame:
        path = lake / f"{_TOPIC_LEVEL}{safe_name(topic)}"
        return self._spark.read.option("basePath", str(lake)).parquet(str(path))

    def _register(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(_quoted(name))

    # -- needed columns -------------------------------------------------------------------------------------------

    def _columns_of(self, frame: DataFrame) -> dict[str, TableUse]:
        """Return how the query uses each topic, from Spark's optimized plan over the empty tables."""
        with translated():
            plan = frame._jdf.queryExecution().optimizedPlan()
            used: dict[int, str] = {}
            leaves: list[Any] = []
            conditions: dict[int, list[str]] = {}
            _note_attributes(plan.output(), used)
            _walk(plan, used, leaves, conditions)
        return {name: self._use_of(topic, leaves, used, conditions) for name, topic in self._topics.items()}

    def _use_of(
        self, topic: _Topic, leaves: list[Any], used: Mapping[int, str], conditions: Mapping[int, list[str]]
    ) -> TableUse:
        columns: set[str] = set()
        terms: list[str] = []
        is_found = False
        for number, leaf in enumerate(leaves):
            own = _attributes(leaf.output())
            # Topics with the same columns look the same in the plan: each gets what any of them needs.
            if set(own.values()) == set(topic.columns):
                is_found = True
                columns |= {name for key, name in own.items() if key in used}
                terms += conditions.get(number, [])
        needed = tuple(name for name in topic.columns if name in columns) or _CHEAPEST
        if not is_found or _depends_on_places(self._sql):
            needed = topic.columns
        source = f"store {self._tables.place.directory}" if self._tables.place else f"cluster {self._tables.namesrv}"
        return TableUse(topic.name, source, needed, tuple(dict.fromkeys(terms)))


def _walk(plan: Any, used: dict[int, str], leaves: list[Any], conditions: dict[int, list[str]]) -> None:
    children = plan.children()
    if not children.size():
        leaves.append(plan)
        return
    _note_attributes(plan.references().toSeq(), used)
    first = len(leaves)
    for number in range(children.size()):
        _walk(children.apply(number), used, leaves, conditions)
    if plan.nodeName() == "Filter" and len(leaves) == first + 1:
        conditions.setdefault(first, []).append(re.sub(r"#\d+L?", "", str(plan.condition().toString())))


def _attributes(sequence: Any) -> dict[int, str]:
    """Return the names of attributes by their numbers in the plan."""
    found: dict[int, str] = {}
    _note_attributes(sequence, found)
    return found


def _note_attributes(sequence: Any, found: dict[int, str]) -> None:
    for number in range(sequence.size()):
        attribute = sequence.apply(number)
        found[attribute.exprId().id()] = attribute.name()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PySpark from printing the errors of a query, which this module answers, with pages of Java."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # PySpark's own calls fail at a plain one of this name
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _depends_on_places(sql: str) -> bool:
    """Return whether a query may combine rows by the places of columns, which change when some are left out."""
    rest = re.sub(r"count\s*\(\s*\*\s*\)", "", sql, flags=re.IGNORECASE)
    return "*" in rest and re.search(r"\b(union|intersect|except|minus)\b", rest, re.IGNORECASE) is not None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _unquoted(name: str) -> str:
    return name.replace("`", "")


def _one_line(text: str) -> str:
    """Return Spark's text without its class of errors."""
    return re.sub(r"^\[[A-Z0-9_.]+\] *", "", text).removesuffix(".")


def _nearest(name: str, known: Sequence[str]) -> str:
    names = sorted(set(known))
    by_lower = {one.lower(): one for one in reversed(names)}
    close = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, n=3)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = ", …" if len(names) > _NAMES_SHOWN_MAX else ""
    return f"there are {', '.join(names[:_NAMES_SHOWN_MAX])}{more}" if names else "there are none"
