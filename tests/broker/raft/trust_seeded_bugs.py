"""Seeded bugs in what a node believes: proofs, sessions, secrets, answers of others, and what it does to its own log.

Their ``suites`` are tests as ``module.function``.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.messages.waiting_answers import WaitingAnswers
from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.handshake import Sessions
from pymq.broker.raft.joining import Joining
from pymq.broker.raft.joining_mark import JoiningMark
from pymq.broker.raft.majority import MajorityMode
from pymq.broker.raft.rot_repair import RotRepair
from pymq.broker.raft.secret_file import SecretFile, secret_path
from pymq.broker.replication.sync_mode import LateReply, SyncMode
from pymq.store.integrity.log_scan import LogScan
from tests.planting import Bug, Seam, Text, does_nothing, gives

RAFT, STORE = "tests.broker.raft", "tests.store.integrity"
TRUE_ANSWERS = "tests.broker.messages.test_waiting_answers.test_an_answer_that_clients_take_for_a_success_is_true"


def _says_stored(real: Any, mode: SyncMode, why: str = "it is late", *, keeps_log: bool = True) -> LateReply:
    return SyncMode.given_up_reply(mode, why, keeps_log=True)


BUGS = (
    Bug("a proof is not looked at",
        Text(MessageGate._why_not_in_session, "if not any(is_proven", "if False and not any(is_proven"),
        (f"{RAFT}.test_gate.test_no_key_but_one_of_the_secret_proves_a_message",)),
    Bug("the proof of a handshake is not looked at",
        Text(MessageGate._taken_handshake, "if not any(", "if False and not any("),
        (f"{RAFT}.test_gate.test_no_key_but_one_of_the_secret_proves_a_message",)),
    Bug("a message needs no handshake",
        Text(Sessions.why_over, "if not 0 < welcome <= self._welcome_count:", "if False:"),
        (f"{RAFT}.test_gate.test_a_message_without_a_handshake_is_refused",)),
    Bug("a session that is over goes on",
        Text(Sessions.why_over, "incoming.session == session or welcome <= incoming.newest", "False"),
        (f"{RAFT}.test_gate.test_nothing_of_an_earlier_start_of_its_sender_is_taken",)),
    Bug("any Welcome counts",
        Text(Sessions.on_welcome, "if not outgoing.nonce or not hmac.compare_digest(outgoing.nonce, welcome.nonce):",
             "if False:"),
        (f"{RAFT}.test_gate.test_a_replayed_welcome_changes_nothing",)),
    Bug("a number counts twice", Text(Sessions.why_replayed, "if why := window.why_not(number):", "if why := \"\":"),
        (f"{RAFT}.test_gate.test_a_replayed_message_is_refused",)),
    Bug("a node that has started again is not asked for a session",
        Text(Sessions.on_hello, "self.hello_nonce(node)", "pass"),
        (f"{RAFT}.test_gate.test_a_replayed_welcome_changes_nothing",)),
    Bug("the founding id is not compared", Seam(MessageGate._why_other_group, gives(None)),
        (f"{RAFT}.test_gate.test_members_of_another_group_with_the_same_name_and_secret_are_refused",)),
    Bug("members on several machines need no secret of their own",
        Text(secret_path, "if not group.is_local:", "if False:"),
        (f"{RAFT}.test_secret_file.test_members_on_several_machines_need_a_file_that_they_are_given",)),
    Bug("a secret that others can read is taken",
        Text(SecretFile._read, "is_open_to_others(mode := self._files.mode(self.path))", "mode := 0"),
        (f"{RAFT}.test_secret_file.test_a_file_of_the_operator_is_read_and_never_made",)),
    Bug("any answer proves itself", Seam(AnswerProof.why_not, gives("")),
        (f"{RAFT}.test_joining.test_bytes_that_no_member_proves_are_not_copied",)),
    Bug("a log is dropped before the other one is whole",
        Text(JoiningMark._discard, "self._move(self._root, self._former)", "self._clear_root()"),
        (f"{RAFT}.test_joining_mark.test_a_log_is_set_aside_with_all_that_says_something_of_it",)),
    Bug("a log that is set aside is forgotten at a start",
        Text(JoiningMark.recover, "if not self.is_set:", "if True:"),
        (f"{RAFT}.test_joining_mark.test_an_unfinished_copy_is_dropped_and_the_former_log_stays",)),
    Bug("a log is set aside before the other one was shown",
        Text(Joining.offered, "self._probe(snapshot, address)", "self._discard(\"\")"),
        (f"{RAFT}.test_joining.test_a_log_is_set_aside_once_the_leader_shows_the_other_one",)),
    Bug("a former log is never put back", Seam(Joining._put_back_when_stuck, does_nothing),
        (f"{RAFT}.test_joining.test_the_former_log_is_put_back_when_no_other_one_comes",)),
    Bug("bytes of others are written unseen",
        Text(LogScan.mend, "if self._digests.check(segment, memoryview(data), at) is not None:", "if False:"),
        (f"{STORE}.test_log_scan.test_damage_is_found_and_mended_in_each_part_of_the_log",)),
    Bug("a damaged leader leads on", Seam(RotRepair._hand_over, does_nothing),
        (f"{RAFT}.test_rot_repair.test_a_damaged_leader_hands_over_now_and_then",)),
    Bug("a deposed leader calls a message stored that it gives up",
        Seam(MajorityMode.given_up_reply, _says_stored), (TRUE_ANSWERS,)),
    Bug("a late message counts as stored",
        Seam(MajorityMode.late_reply, _says_stored), (TRUE_ANSWERS,)),
    Bug("a master that becomes a slave calls a message stored",
        Text(SyncMode.given_up_reply, "if not keeps_log:", "if False:"), (TRUE_ANSWERS,)),
    Bug("a refusal shows a place in the log",
        Text(WaitingAnswers.give_up, "is_stored=late.is_stored", "is_stored=True"), (TRUE_ANSWERS,)),
    Bug("a record of a deposed leader ends each turn",
        Text(RaftGroup._propose, "except RaftRefusedError as error:", "except ZeroDivisionError as error:"),
        (f"{RAFT}.test_group_limits.test_records_of_a_deposed_leader_end_with_its_role",)),
)  # fmt: skip
