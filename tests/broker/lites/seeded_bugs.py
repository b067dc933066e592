"""Seeded bugs in the consumption of lite topics, which unit tests must catch.

Each is one wrong step that a programmer could write. Its ``suites`` are tests by their module below ``tests.broker``.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.handlers.lite_pops import LitePopHandlers
from pymq.broker.handlers.pop import PopHandlers
from pymq.broker.messages import lite_topics
from pymq.broker.pop.lite_control import LiteControl
from pymq.broker.pop.lite_expiry import LiteExpiry
from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.pop.lite_popper import LitePopper
from pymq.broker.pop.lite_subscriptions import LiteSubscriptions
from pymq.broker.pop.ordered_queues import OrderedQueues
from pymq.store.light.light_chains import LightChains
from tests.planting import Bug, Seam, Text, does_nothing

_Subscriptions: Any = LiteSubscriptions
_Control: Any = LiteControl
_Popper: Any = LitePopper
_Expiry: Any = LiteExpiry
_Handlers: Any = LitePopHandlers
_Pops: Any = PopHandlers

POPS = "handlers.test_lite_pops."
EXPIRY = "lites.test_expiry."
USERS = "lites.test_users."
COPIES = "lites.test_copies."

BUGS = [
    Bug(
        "a lite topic that is handed out gives more",
        Text(_Popper._pop_lite, "self._ordered.is_blocked(queue, ask.attempt_id)", "False"),
        (POPS + "test_a_lite_topic_gives_nothing_until_all_of_it_is_acknowledged",),
    ),
    Bug(
        "what is free again is no news",
        Seam(_Handlers.on_free, does_nothing),
        (POPS + "test_an_acknowledgement_wakes_a_pop_that_waits_for_the_next_message",),
    ),
    Bug(
        "the end of an invisible time wakes nobody",
        Text(OrderedQueues.tick, "self.on_free(queue.topic, queue.group)", "pass"),
        (POPS + "test_the_end_of_an_invisible_time_wakes_a_pop_that_waits",),
    ),
    Bug(
        "only the first subscription wakes a pop",
        Text(_Handlers._on_published, "in staged:", "in staged[:0]:"),
        (POPS + "test_news_of_any_subscription_wakes_a_pop_that_waits",),
    ),
    Bug(
        "the same subscriber is always woken first",
        Text(_Subscriptions._wake_one, "del subscribers[client]", "pass"),
        (POPS + "test_shared_subscribers_take_turns_and_each_message_goes_to_one",),
    ),
    Bug(
        "what a lost client was woken for waits for its time",
        Text(_Subscriptions.remove, "elif was_due:", "elif False:"),
        (POPS + "test_what_a_lost_client_was_woken_for_wakes_another_one",),
    ),
    Bug(
        "an excluded client keeps its subscription",
        Text(_Control._exclude, "self._subscriptions.remove(other, lite)", "pass"),
        (POPS + "test_an_exclusive_group_has_one_subscriber_of_a_lite_topic",),
    ),
    Bug(
        "a whole set takes lite topics away",
        Text(_Control._replace, "if rules.is_exclusive", "if False and rules.is_exclusive"),
        (POPS + "test_an_exclusive_group_has_one_subscriber_of_a_lite_topic",),
    ),
    Bug(
        "a wildcard group does not see what was there before",
        Text(_Subscriptions.take_due, "yield from group.unseen", "pass"),
        (POPS + "test_members_of_a_wildcard_group_share_all_lite_topics",),
    ),
    Bug(
        "a pop that has not seen all waits for news",
        Text(_Handlers._retry, "parked.looks_again =", "_ ="),
        (POPS + "test_a_pop_looks_at_some_lite_topics_at_a_time_and_goes_on",),
    ),
    Bug(
        "a late whole set counts",
        Text(_Control.change, "not 0 < entry.version < client.version", "True"),
        (POPS + "test_a_whole_set_that_is_late_is_passed_over",),
    ),
    Bug(
        "subscriptions outlive their connection",
        Seam(_Subscriptions.disconnect, does_nothing),
        (POPS + "test_subscriptions_end_with_their_connection_and_with_silence",),
    ),
    Bug(
        "an old connection takes a client's subscriptions along",
        Text(_Subscriptions.join, "elif client.peer is not peer:", "elif False:"),
        (POPS + "test_a_client_that_comes_back_on_a_new_connection_keeps_its_subscriptions",),
    ),
    Bug(
        "quotas count what a client has already twice",
        Text(_Subscriptions.check_room, "self.count - len(client.lites)", "self.count"),
        (POPS + "test_quotas_are_refused_with_2018",),
    ),
    Bug(
        "an acknowledged message becomes a dead letter",
        Text(_Popper._bury, "if not self._ordered.is_acked(queue, entry.queue_offset):", "if True:"),
        (POPS + "test_after_the_last_try_a_message_is_a_dead_letter_with_its_lite_topic",),
    ),
    Bug(
        "a lite topic goes on before its dead letters are stored",
        Text(_Popper._pop_lite, "queue in self._dying", "False"),
        (POPS + "test_a_dead_letter_is_stored_once",),
    ),
    Bug(
        "the offset of an acknowledgement is that of the parent's queue",
        Text(_Pops._check_place_of, "if header.lite_topic is None:", "if True:"),
        (POPS + "test_messages_beyond_the_parents_queue_are_acknowledged",),
    ),
    Bug(
        "a client id is everybody's",
        Text(_Subscriptions.owned, "client.user != user", "False"),
        (USERS + "test_a_client_id_belongs_to_the_user_that_made_it",),
    ),
    Bug(
        "offsets past the end stay",
        Text(lite_topics.with_light_queues, "store.lights.max_offset(*names)", "None"),
        (POPS + "test_offsets_past_the_end_go_back_to_it",),
    ),
    Bug(
        "offsets of lite topics wait for the log",
        Seam(LiteOffsets.has_news, lambda self, group, parent, lite: False),
        (POPS + "test_whole_sets_replace_and_parts_change",),
    ),
    Bug(
        "what is not read expires",
        Text(_Expiry._is_read, "is_read = False", "pass"),
        (EXPIRY + "test_what_one_group_has_not_read_stays",),
    ),
    Bug(
        "a group without an offset has read all",
        Text(_Expiry._is_read, "self._offsets.begin_at(group, parent, lite, start)", "pass"),
        (EXPIRY + "test_what_one_group_has_not_read_stays",),
    ),
    Bug(
        "there are no read marks",
        Seam(LiteOffsets.move_mark, does_nothing),
        (EXPIRY + "test_a_lite_topic_that_a_start_knows_again_is_not_read_again",),
    ),
    Bug(
        "groups that were bound meanwhile get a read mark",
        Text(_Expiry._expire, "for group in old.groups:", "for group in bound:"),
        (EXPIRY + "test_a_group_that_is_bound_between_two_passes_reads_all",),
    ),
    Bug(
        "expired lite topics keep their offsets",
        Seam(_Expiry._forget_offsets, lambda self: iter(())),
        (EXPIRY + "test_what_is_old_and_read_goes_with_its_offsets",),
    ),
    Bug(
        "a long light queue is read from its end",
        Text(LightChains.entries, "if rank < newest.rank:", "if False:"),
        (POPS + "test_a_lite_topic_gives_nothing_until_all_of_it_is_acknowledged",),
    ),
]
