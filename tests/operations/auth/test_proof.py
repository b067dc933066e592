"""What refusals say about the sender, and what a cluster makes of credentials."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client.admin import BrokerTarget
from pymq.errors import RefusedError, UnreachableError
from pymq.operations.auth.proof import Proof, proof_of, prove
from pymq.security.credentials import Credentials

KEYS = Credentials("reader", "secret")
ACL_4X = "org.apache.rocketmq.acl.common.AclException: "
LACKS = "User:reader has no permission to access Cluster:* from 127.0.0.1, no matched policies."


@pytest.mark.parametrize(
    ("code", "remark", "proof"),
    [
        (16, "username cannot be null.", Proof.unproven),
        (16, "User:ghost is not found.", Proof.unproven),
        (16, "User:ghost is disabled.", Proof.unproven),
        (16, "check signature failed.", Proof.unproven),
        (16, "5 requests from 10.0.0.1 failed to prove user reader: ...", Proof.unproven),
        (16, LACKS, Proof.proven),
        (1, ACL_4X + "No accessKey is configured, /home/plain_acl.yml", Proof.unproven),
        (1, ACL_4X + "No acl config for ghost", Proof.unproven),
        (1, ACL_4X + "Check signature failed for accessKey=reader", Proof.unproven),
        (1, ACL_4X + "No default permission for topic:orders", Proof.proven),
        (1, ACL_4X + "Need admin permission for request code=17, but accessKey=reader is not", Proof.proven),
        (1, "the store is full", None),
        (16, "not allowed on Sundays", None),
        (2, "username cannot be null.", None),
    ],
)
def test_a_remark_tells_a_wrong_secret_from_a_missing_right(code: int, remark: str, proof: Proof | None) -> None:
    assert proof_of(RefusedError(code, remark)) is proof


class FakeAdmin:
    """An admin client: what its cluster and its brokers answer. None is an answer."""

    def __init__(self, cluster: Exception | None = None, brokers: tuple[Exception | None, ...] = (None,)) -> None:
        self.cluster = self.brokers = self
        self._cluster, self._brokers = cluster, brokers
        self.closed = 0

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.closed += 1

    async def masters(self) -> list[BrokerTarget]:
        if self._cluster is not None:
            raise self._cluster
        return [BrokerTarget(f"broker-{at}", "east", str(at)) for at in range(len(self._brokers))]

    async def runtime_info(self, address: str) -> dict[str, str]:
        error = self._brokers[int(address)]
        if error is not None:
            raise error
        return {}


def proven(signed: FakeAdmin, unsigned: FakeAdmin | None = None) -> Proof:
    made: list[FakeAdmin] = []

    def make(credentials: Credentials | None) -> Any:
        assert credentials in (KEYS, None)
        admin = signed if credentials is KEYS else unsigned
        assert admin is not None
        made.append(admin)
        return admin

    try:
        return asyncio.run(prove(make, KEYS))
    finally:
        assert all(admin.closed for admin in made)


UNSIGNED = RefusedError(16, "username cannot be null.")
WRONG = RefusedError(16, "check signature failed.")
AWAY = UnreachableError("away")


def test_credentials_are_proven_where_others_are_refused() -> None:
    assert proven(FakeAdmin(), FakeAdmin(UNSIGNED)) is Proof.proven
    assert proven(FakeAdmin(), FakeAdmin(brokers=(UNSIGNED,))) is Proof.proven


def test_a_missing_right_proves_them() -> None:
    assert proven(FakeAdmin(RefusedError(16, LACKS))) is Proof.proven
    assert proven(FakeAdmin(brokers=(RefusedError(16, LACKS),))) is Proof.proven


def test_a_wrong_secret_is_refused_by_the_name_server_or_by_a_broker() -> None:
    assert proven(FakeAdmin(WRONG)) is Proof.unproven
    assert proven(FakeAdmin(brokers=(WRONG,))) is Proof.unproven


def test_a_cluster_that_checks_nobody_proves_nobody() -> None:
    assert proven(FakeAdmin(), FakeAdmin()) is Proof.unchecked


def test_a_broker_that_is_away_is_passed_by() -> None:
    assert proven(FakeAdmin(brokers=(AWAY, WRONG))) is Proof.unproven
    with pytest.raises(UnreachableError, match="away"):
        proven(FakeAdmin(brokers=(AWAY, AWAY)))
    with pytest.raises(UnreachableError, match="no broker is registered"):
        proven(FakeAdmin(brokers=()))


def test_another_refusal_is_an_error() -> None:
    with pytest.raises(RefusedError, match="Sundays"):
        proven(FakeAdmin(RefusedError(16, "not on Sundays")))
