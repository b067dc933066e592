"""Requests to change a broker's role: their effects and their refusals."""

from __future__ import annotations

import msgspec
import pytest

from pymq.broker.replication.roles.promotion import RoleRequests
from pymq.broker.replication.roles.role import Role
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import Refusal
from pymq.wire.bodies_replication import FENCE_MS_MAX, RoleAnswer, RoleRequest
from pymq.wire.codes import RequestCode
from tests.broker.replication.asking import THEIRS, following
from tests.broker.world import Caller, World, slave_side

OWN = "127.0.0.1:10911"


def order(world: World, **fields: object) -> RoleAnswer:
    body = msgspec.json.encode(RoleRequest(**fields))  # type: ignore[arg-type]
    return msgspec.json.decode(Caller(world).ok(RequestCode.PYMQ_CHANGE_ROLE, body).body, type=RoleAnswer)


def refused(world: World, **fields: object) -> str:
    body = msgspec.json.encode(RoleRequest(**fields))  # type: ignore[arg-type]
    code, remark = Caller(world).refused(RequestCode.PYMQ_CHANGE_ROLE, body)
    assert code == 29
    assert not world.role_changes
    return remark


def slave(**ha_client: object) -> World:
    """Return a slave whose HA client has the given state."""
    world = World(brokerId=1)
    parts = world.parts
    state = following(THEIRS, **ha_client)
    slave_side(parts).ha_client.state = lambda: state  # type: ignore[method-assign]
    return world


def test_a_fenced_master_takes_no_writes_until_it_is_resumed() -> None:
    world = World()
    Caller(world)
    world.put("TBW102")
    answer = order(world, action="fence", fence_ms=1000, epoch=1)
    fence = world.parts.replication.write_fence
    assert answer == RoleAnswer(log_end=world.parts.store.physical_max_offset, epoch=1, fence=fence.number)
    assert fence.is_on and fence.number
    assert order(world, action="resume").fence == 0
    assert not world.parts.replication.write_fence.is_on


def test_a_raft_group_takes_no_orders() -> None:
    parts = World().parts
    replication = parts.replication
    requests = RoleRequests(
        parts.runtime,
        store=parts.store,
        own=replication.own_role,
        write_fence=replication.write_fence,
        side=parts.side,
        known_peers=replication.known_peers,
        is_in_raft_group=True,
    )
    for action in ("fence", "resume", "step_down", "promote", "truncate"):
        with pytest.raises(Refusal, match="use pymq raft transfer broker-a NODE"):
            requests.follow(RoleRequest(action=action), THEIRS)
    assert not replication.write_fence.is_on


@pytest.mark.parametrize("fence_ms", [-1, 0, FENCE_MS_MAX + 1])
def test_a_write_fence_has_limits(fence_ms: int) -> None:
    world = World()
    remark = refused(world, action="fence", fence_ms=fence_ms)
    assert str(fence_ms) in remark and str(FENCE_MS_MAX) in remark
    order(world, action="fence", fence_ms=FENCE_MS_MAX)


def test_a_fenced_master_steps_down() -> None:
    world = World()
    order(world, action="fence", fence_ms=1000)
    order(world, action="step_down", broker_id=2, master_address=THEIRS)
    (change,) = world.role_changes
    assert change.role == Role(2, master_address=THEIRS) and change.truncate_to is None


def test_a_master_that_takes_writes_steps_down_by_force_alone() -> None:
    world = World()
    assert "fence" in refused(world, action="step_down", broker_id=2, master_address=THEIRS)
    order(world, action="step_down", broker_id=2, master_address=THEIRS, force=True)
    assert len(world.role_changes) == 1


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"broker_id": 0, "master_address": THEIRS}, "brokerId 0"),
        ({"broker_id": BROKER_ID_MAX + 1, "master_address": THEIRS}, f"1 to {BROKER_ID_MAX}"),
        ({"broker_id": 1, "master_address": "nowhere"}, "masterAddress"),
        ({"broker_id": 1, "master_address": OWN}, OWN),
    ],
)
def test_an_invalid_step_down_is_refused(fields: dict[str, object], word: str) -> None:
    assert word in refused(World(), action="step_down", force=True, **fields)


def test_the_highest_id_may_be_taken() -> None:
    world = World()
    order(world, action="step_down", broker_id=BROKER_ID_MAX, master_address=THEIRS, force=True)
    assert world.role_changes[0].role.broker_id == BROKER_ID_MAX


def test_a_slave_that_has_lost_its_master_is_promoted() -> None:
    world = slave(master_log_end=0)
    order(world, action="promote", master_role="SYNC_MASTER", epoch=0)
    (change,) = world.role_changes
    assert change.role == Role(0, begins_epoch=True)
    assert world.master_roles == ["SYNC_MASTER"]


def test_a_slave_that_lacks_something_is_promoted_by_force_alone() -> None:
    world = slave(master_log_end=70)
    remark = refused(world, action="promote")
    assert "70 bytes" in remark and THEIRS in remark
    order(world, action="promote", force=True)
    assert len(world.role_changes) == 1


def test_a_slave_that_follows_a_living_master_is_promoted_by_force_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slave(master_log_end=0)
    monkeypatch.setattr(type(slave_side(world.parts).ha_client), "is_following", property(lambda ha_client: True))
    assert "step down first" in refused(world, action="promote")
    order(world, action="promote", force=True)
    assert len(world.role_changes) == 1


@pytest.mark.parametrize("action", ["fence", "resume", "step_down"])
def test_a_slave_refuses_orders_for_a_master(action: str) -> None:
    assert "slave 1" in refused(slave(), action=action)


def test_a_master_is_not_promoted_unless_it_is_chosen_before_another() -> None:
    world = World()
    assert "already" in refused(world, action="promote")
    assert "epoch is 1, not 7" in refused(world, action="promote", force=True, epoch=7)
    order(world, action="promote", force=True, epoch=1)
    (change,) = world.role_changes
    assert change.role == Role(0, begins_epoch=True) and change.truncate_to is None


def test_an_order_for_another_epoch_is_refused() -> None:
    remark = refused(World(), action="fence", fence_ms=5, epoch=7)
    assert "epoch is 1, not 7" in remark


@pytest.mark.parametrize("body", [b"", b"[]", b'{"action": 5}', b'{"action": "dance"}'])
def test_an_invalid_order_is_refused(body: bytes) -> None:
    world = World()
    code, _ = Caller(world).refused(RequestCode.PYMQ_CHANGE_ROLE, body)
    assert code == 29 and not world.role_changes


def test_a_slave_truncates_once_where_the_operator_allows_it() -> None:
    world = slave(truncate_to=100, master_log_end=700)
    for offset in (-1, 0, 99, 101):
        assert f"truncateTo {offset}" in (remark := refused(world, action="truncate", truncate_to=offset))
        assert "asks for 100" in remark and THEIRS in remark
    order(world, action="truncate", truncate_to=100)
    (change,) = world.role_changes
    assert (change.truncate_to, change.role) == (100, Role(1)) and "an operator at" in change.why


@pytest.mark.parametrize("is_master", [True, False])
def test_a_broker_that_waits_for_no_permission_truncates_nothing(is_master: bool) -> None:
    world = World() if is_master else slave()
    assert "waits for no permission" in refused(world, action="truncate", truncate_to=0)


def test_the_new_master_that_an_operator_names_is_known() -> None:
    world = World()
    assert not world.parts.replication.known_peers.is_known(THEIRS)
    order(world, action="step_down", broker_id=1, master_address=THEIRS, force=True)
    assert world.parts.replication.known_peers.is_known(THEIRS)
