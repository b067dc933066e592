"""Which topics have batch queues, by ``config/topics.json``: a start asks before the broker reads its tables."""

from __future__ import annotations

from pymq.model import fastjson
from pymq.model.inner_batch import has_batch_queues
from pymq.store.disk.fs import Files

_TOPICS_FILE = "topics.json"


def load_batch_topics(files: Files, root: str) -> set[str]:
    """Return the names of topics with batch queues in the tables of a store; none without a usable table.

    The broker reports a damaged table when it reads all of it.
    """
    path = f"{root}/config/{_TOPICS_FILE}"
    for candidate in (path, path + ".bak"):
        try:
            table = fastjson.loads(files.read_bytes(candidate))
        except (OSError, fastjson.JsonError):
            continue
        topics = table.get("topicConfigTable") if isinstance(table, dict) else None
        if isinstance(topics, dict):
            return {name for name, topic in topics.items() if _has_batch_queues(topic)}
    return set()


def _has_batch_queues(topic: object) -> bool:
    attributes = topic.get("attributes") if isinstance(topic, dict) else None
    return isinstance(attributes, dict) and has_batch_queues(attributes)
