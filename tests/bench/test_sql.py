"""The SQL load sends what it says: three properties a message, and one match a batch."""

from bench.frames import batch_fields, pull_frame
from bench.sql import BATCH, BODY_BYTES, EXPRESSION, MATCHES_PER_BATCH, batch_of_amounts
from pymq.filter.sql92 import compile_sql
from pymq.model.properties import decode_properties
from pymq.model.record import decode_batch
from pymq.wire.command import decode_command


def test_one_message_of_a_batch_matches() -> None:
    entries = decode_batch(batch_of_amounts())
    assert len(entries) == BATCH and {len(body) for _, body, _ in entries} == {BODY_BYTES}
    properties = [decode_properties(raw) for _, _, raw in entries]
    assert {len(one) for one in properties} == {3}
    assert [compile_sql(EXPRESSION).evaluate(one) for one in properties].count(True) == MATCHES_PER_BATCH


def test_frames() -> None:
    pull = decode_command(pull_frame(7, "T", "g", 3, 100, 32, sql=EXPRESSION)[4:])
    assert (pull.ext["subscription"], pull.ext["expressionType"], pull.ext["sysFlag"]) == (EXPRESSION, "SQL92", "4")
    fields = batch_fields("T", 3, 1234)
    assert (fields["b"], fields["e"], fields["g"], fields["m"]) == ("T", "3", "1234", "true")
