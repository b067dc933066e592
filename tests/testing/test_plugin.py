"""The pytest plugin: its fixtures in a test of a user."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

# By its module, whether or not this checkout is installed with its entry point.
PLUGIN = ("-p", "no:pymq", "-p", "pymq.testing.plugin")


def test_a_test_gets_broker_topic_producer_and_consumer(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pymq.client import Message

        @pytest.fixture
        def pymq_settings():
            return {"brokerName": "mine"}

        def test_fixtures(pymq_broker, pymq_topic, pymq_producer, pymq_consumer):
            sent = pymq_producer.send(Message(pymq_topic, b"1", delay_level=18))
            assert sent.queue.broker_name == "mine"
            pymq_broker.clock.advance(hours=2)
            assert pymq_consumer.receive().body == b"1"

        def test_a_broker_of_its_own(pymq_consumer, pymq_topic):
            assert pymq_consumer.waiting_count == 0

        def test_a_test_may_leave_the_broker_dead(pymq_broker, pymq_producer, pymq_consumer):
            pymq_broker.kill()
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=3)


def test_fixtures_are_listed_with_what_they_are(pytester: pytest.Pytester) -> None:
    listed = pytester.runpytest_inprocess(*PLUGIN, "--fixtures", "-q")
    listed.stdout.fnmatch_lines(
        [f"*pymq_{name} -- *testing*plugin.py*" for name in ("settings", "broker", "topic", "producer", "consumer")]
    )
