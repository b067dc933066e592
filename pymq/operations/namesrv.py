"""What each name server of a cluster knows, and which entries of the other name servers it lacks."""

from __future__ import annotations

from typing import Any

from pymq.client.admin import Admin
from pymq.errors import PymqError

NAMED_MAX = 5  # of what a name server lacks


async def views(admin: Admin) -> list[dict[str, Any]]:
    """Return a record for each name server, with the entries of other name servers that it lacks."""
    found = await admin.namesrv.views()
    known = [view for view in found.values() if not isinstance(view, PymqError)]
    brokers = set().union(*(view.brokers for view in known))
    topics = set().union(*(view.topics for view in known))
    records = []
    for address, view in found.items():
        if isinstance(view, PymqError):
            records.append(
                {"address": address, "answers": False, "brokers": None, "topics": None, "problems": [str(view)]}
            )
            continue
        problems = []
        if brokers - view.brokers:
            problems.append(
                f"it lacks {_some(brokers - view.brokers)}, which another one lists: does the broker name both in "
                "namesrvAddr?"
            )
        if topics - view.topics:
            problems.append(f"it lacks the topics {_some(topics - view.topics)}")
        records.append(
            {
                "address": address,
                "answers": True,
                "brokers": len(view.brokers),
                "topics": len(view.topics),
                "problems": problems,
            }
        )
    return records


def _some(names: set[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(sorted(names)[:NAMED_MAX]) + more
