"""``pymq broker status``: shows one broker, or all brokers of a name, with their replication."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pymq.cli.common.cells import shown_bytes, shown_count, shown_ms
from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, cell_text, print_data, print_fields, print_line, print_section
from pymq.operations.times import local_time
from pymq.units import format_bytes, format_duration_ms

app = new_app()


def _rate(bytes_per_second: int | None) -> str:
    return f"{shown_bytes(bytes_per_second)}/s"


SLAVE_COLUMNS = [
    Column("broker_id", "ID", right=True, show=shown_count),
    Column("address"),
    Column("state"),
    Column("ack_offset", "HAS UP TO", right=True),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("lag_messages", "MESSAGES", right=True, show=shown_count),
    Column("lag_ms", "TIME", right=True, show=shown_ms),
    Column("bytes_per_second", "RATE", right=True, show=_rate),
    Column("in_sync", "IN SYNC"),
    Column("problem"),
]
EPOCH_COLUMNS = [
    Column("epoch", right=True),
    Column("start", "FROM OFFSET", right=True),
    Column("epoch_id", "EPOCH ID"),
]
TRUNCATION_COLUMNS = [
    Column("time_ms", "TRUNCATED", show=local_time),
    Column("start", "FROM OFFSET", right=True),
    Column("end", "TO OFFSET", right=True),
    Column("message_count", "MESSAGES", right=True),
    Column("path", "KEPT IN"),
]
NEWEST_EPOCHS_SHOWN = 5


@app.command(
    epilog=examples(
        "pymq broker status broker-a", "pymq broker status 127.0.0.1:10911", "pymq broker status broker-a -o json"
    ),
    watched=True,
)
def status(
    session: Session,
    broker: Annotated[
        str,
        typer.Argument(
            metavar="NAME|HOST:PORT", help="The name or the address of a broker.", autocompletion=live("broker")
        ),
    ],
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show a broker's role, log, slaves or link to its master, lag, epochs and truncations; of a name all brokers.

    Exit code 0: a broker answered, even if it has problems; 4: no broker can be reached.
    """
    from pymq.operations.broker import status as work

    described = session.ask(lambda admin: work.describe(admin, broker))
    if print_data(described, output):
        return
    for number, one in enumerate(described):
        if number:
            print_line()
        _print(one)


def _print(one: dict[str, Any]) -> None:
    print_fields(_fields(one))
    if not one["reachable"]:
        return
    if one["ha_client"] is not None:
        ha_client = one["ha_client"]
        print_line("\nmaster")
        print_fields({f"  {name}": value for name, value in _ha_client_fields(ha_client).items()})
    else:
        print_section("slaves", one["slaves"], SLAVE_COLUMNS, "none is connected")
    if one["epoch_history"]:
        print_section("newest epochs", one["epoch_history"][-NEWEST_EPOCHS_SHOWN:], EPOCH_COLUMNS, "none")
    if one["truncations"]:
        print_section("truncated from this log", one["truncations"], TRUNCATION_COLUMNS, "nothing")


def _fields(one: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "broker": f"{one['broker']} (id {one['broker_id']}, cluster {one['cluster']})",
        "address": one["address"],
        "role": one["role"],
        "problems": "\n".join(one["problems"]) or "none",
    }
    if one["reachable"]:
        fields |= {
            "version": one["version"],
            "log": f"{one['log_start']} to {one['log_end']} in segments of {format_bytes(one['segment_size_bytes'])}",
            "messages ever": shown_count(one["message_count"]),
            "confirmed up to": _confirmed_text(one),
        }
        if one["ha_client"] is None:
            fields["slaves connect to"] = one["ha_address"]
            fields["in sync"] = _in_sync_text(one)
        if one["raft"] is not None:
            fields["raft"] = _raft_text(one["raft"])
        if one["recovered_tail"] is not None:
            fields["recovered tail"] = _recovered_tail_text(one["recovered_tail"])
    return fields


def _raft_text(raft: dict[str, Any]) -> str:
    leads = "" if raft["leader"] == raft["node"] else f", {raft['leader'] or 'no node'} leads"
    text = f"{raft['node']}, {raft['role']} of term {raft['term']}{leads}, {raft['voters']} voters"
    change = raft["last_change"]
    return f"{text}\nsince {local_time(change['time_ms'])}: {change['why']}" if change else text


def _confirmed_text(one: dict[str, Any]) -> str:
    """Return ``-`` when the confirm offset is unknown: a SYNC_MASTER lacks the slaves it requires."""
    return cell_text(one["confirm_offset"] or (None if one["log_end"] else 0))


def _in_sync_text(one: dict[str, Any]) -> str:
    if one["in_sync_slaves"] is None:
        return "unknown"  # RocketMQ 4 does not say which slaves it has
    text = f"{one['in_sync_slaves']} of {one['connected_slaves']} connected, {one['required_slaves']} required"
    return f"{text}, degraded" if one["degraded"] else text


def _recovered_tail_text(recovered_tail: dict[str, Any]) -> str:
    size = format_bytes(recovered_tail["end"] - recovered_tail["start"])
    sources, at = ", ".join(recovered_tail["sources"]), local_time(recovered_tail["time_ms"])
    return f"{size} from offset {recovered_tail['start']} on, lost in an unclean stop; copied from {sources} at {at}"


def _ha_client_fields(ha_client: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": ha_client["master_address"] or ha_client["ha_address"],
        "state": ha_client["state"],
        "behind": f"{shown_bytes(ha_client['lag_bytes'])}, {shown_count(ha_client['lag_messages'])} messages, "
        f"{shown_ms(ha_client['lag_ms'])}",
        "receiving": _rate(ha_client["bytes_per_second"]),
        "last heard": local_time(ha_client["last_heard_ms"]),
        "tables copied": "-"
        if ha_client["metadata_age_ms"] < 0
        else f"{format_duration_ms(ha_client['metadata_age_ms'])} ago",
        "problem": ha_client["problem"] or "none",
    }
