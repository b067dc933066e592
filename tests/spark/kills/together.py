"""Four works at once, in one session on a cluster: they meet the same kills, and take turns with its cores.

Usage: ``python -m tests.spark.kills.together NAMESRV TOPIC HOME MASTER``. A stream writes to a topic, a pipeline to
another one, files are imported, and a store directory is exported. Each is done again until it ends.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions
from pymq.spark.imports import imports
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.session import gateway
from tests.spark.kills import driver

WRITE_COPY, PIPELINE_COPY, IMPORT_TOPIC = "written", "piped", "imported"
ROWS_OF_A_BATCH = 400
ROWS_OF_A_STEP = 250
ROWS_OF_A_TASK = 100
# An export of files is the quickest of the four: many small rounds keep it busy as long as the others.
ROWS_OF_A_ROUND = 300
TRIES = 20
# The works, and the files that show what each has done in its directory. Streams are the slowest, so they begin.
PROGRESS = {
    "write": "write/checkpoint/commits/[0-9]*",
    "pipeline": f"pipeline/checkpoint/{driver.PIPELINE_TABLE}/commits/[0-9]*",
    "import": "import/steps/*.json",
    "store": "store/_pymq/commits/*.json",
}
POLL_S = 0.05


def name_of_copy(topic: str, kind: str) -> str:
    """Return the topic that a work on ``topic`` writes to."""
    return f"{topic}-{kind}"


def works(spark: Any, namesrv: str, topic: str, home: Path, master: str) -> dict[str, Callable[[], object]]:
    """Return the works by name; each has a directory in ``home`` and continues what it finds there."""
    copies = {kind: name_of_copy(topic, kind) for kind in (WRITE_COPY, PIPELINE_COPY, IMPORT_TOPIC)}

    def write() -> None:
        query = driver.to_topic(
            spark, namesrv, topic, home / "write", ROWS_OF_A_BATCH, copies[WRITE_COPY], availableNow=True
        )
        query.awaitTermination()

    def pipeline() -> None:
        job = driver.job(
            spark, namesrv, topic, home / "pipeline", "available-now", ROWS_OF_A_BATCH, copies[PIPELINE_COPY]
        )
        job.run(lambda _: None)

    def import_files() -> None:
        options = imports.ImportOptions((str(home / "files"),), namesrv=namesrv, topic=copies[IMPORT_TOPIC])
        options.master, options.state, options.rows_per_step = master, home / "import", ROWS_OF_A_STEP
        imports.run(options)

    def export_store() -> None:
        options = ExportOptions(store=StorePlace(str(home / "kept")), output=home / "store", master=master)
        options.rows_per_task, options.rows_per_round = ROWS_OF_A_TASK, ROWS_OF_A_ROUND
        export.run(options)

    return dict(zip(PROGRESS, (write, pipeline, import_files, export_store), strict=True))


def to_its_end(spark: Any, name: str, work: Callable[[], object], home: Path) -> None:
    """Do the work, again after each failure that a kill may cause."""
    for left in reversed(range(TRIES)):
        try:
            gateway.activate(spark)
            work()
            (home / f"{name}.done").touch()
            return
        except Exception:
            traceback.print_exc()
            if not left or gateway.death() is not None:
                return


def steps_of(home: Path, name: str) -> int:
    """Return how many steps a work has done."""
    return len(list(home.glob(PROGRESS[name])))


def main(namesrv: str, topic: str, home: Path, master: str) -> int:
    """Do the works that are left; 0 when all are done.

    Each begins when the one before has done a step: Spark gives a new Python process only ten seconds to connect.
    """
    with driver.session(master) as spark:
        threads = []
        for name, work in works(spark, namesrv, topic, home, master).items():
            if not (home / f"{name}.done").exists():
                thread = threading.Thread(target=to_its_end, args=(spark, name, work, home))
                before = steps_of(home, name)
                thread.start()
                threads.append(thread)
                while thread.is_alive() and steps_of(home, name) == before:
                    time.sleep(POLL_S)
        for thread in threads:
            thread.join()
    return 0 if all((home / f"{name}.done").exists() for name in PROGRESS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
