"""Lineages as they stand in JSON bodies (``wire/bodies_replication.py``)."""

from __future__ import annotations

from pymq.broker.replication.lineage import Lineage, Reign
from pymq.wire.bodies_replication import ReignBody


def lineage_to_body(lineage: Lineage) -> list[ReignBody]:
    return [ReignBody(reign.epoch, reign.start, reign.reign_id) for reign in lineage.reigns]


def lineage_of_body(body: list[ReignBody]) -> Lineage:
    return Lineage(tuple(Reign(reign.epoch, reign.start, reign.reign_id) for reign in body))
