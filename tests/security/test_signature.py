"""RocketMQ's signature: what real clients have signed, and that only the values and their names' order matter."""

from __future__ import annotations

import hmac
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.security.signature import (
    ACCESS_KEY,
    LATE_FIELD,
    LATE_FIELD_VERSION_MAX,
    SIGNATURE,
    Secret,
    is_signed_with,
    sign,
    signed_content,
    signed_fields,
)

NODE = {"AccessKey": "ak", "OnsChannel": "ALIYUN"}
HEARTBEAT = (
    b'{"clientID":"192.0.2.2@delay190851","consumerDataSet":[{"groupName":"g_node_delay_k1","consumeType":'
    b'"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    b'"subscriptionDataSet":[{"topic":"ho_node_k1_d","subString":"*","classFilterMode":false,"tagsSet":[],'
    b'"codeSet":[],"subVersion":1795248960142}],"unitMode":false}],"producerDataSet":[]}'
)
SEND = {
    "a": "p_node_r_k1",
    "b": "ho_node_k1_r",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1795248960569",
    "h": "0",
    "i": "TAGS\x01TagA\x02KEYS\x01rk-0\x02",
    "j": "0",
    "k": "false",
}
# Requests of real clients, recorded between them and RocketMQ 5.3.3: secret, named fields, body, signature.
RECORDED = [
    pytest.param("12345678", {"AccessKey": "rocketmq2"}, b"", "Ou1T58RIcyZWaTIwzkhJZWn/Zvs=", id="mqadmin"),
    pytest.param(
        "12345678", {"AccessKey": "rocketmq2", "topic": "T1"}, b"", "3G4rF9vjNkRStDiPAXoCg159+0E=", id="java-topic"
    ),
    pytest.param("sk", NODE | {"topic": "ho_node_k1_r"}, b"", "lJpHnKm4JvSsQE3ZXqRThTC6uEo=", id="node-route"),
    pytest.param("sk", NODE, HEARTBEAT, "qW75pjFADt6KeWTN/1BFTZxUtXM=", id="node-heartbeat"),
    pytest.param("sk", NODE | SEND, b"r-0", "J7ifr2HCa6s0ePGvsohhikw1rkM=", id="node-send"),
]
KEY = "rocketmq2"
SECRET = Secret("12345678")
FIELDS = st.dictionaries(st.text(max_size=6), st.text(max_size=8), max_size=6)


@pytest.mark.parametrize(("secret", "ext", "body", "signature"), RECORDED)
def test_real_clients_sign_as_pymq_does(secret: str, ext: dict[str, str], body: bytes, signature: str) -> None:
    assert sign(Secret(secret), ext, body) == signature
    assert is_signed_with(Secret(secret), {**ext, SIGNATURE: signature}, body, 479)
    assert is_signed_with(Secret(secret), dict(reversed({**ext, SIGNATURE: signature}.items())), body, 479)


@settings(max_examples=40)
@given(FIELDS, st.binary(max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_the_fields_does_not_matter(ext: dict[str, str], body: bytes, random: object) -> None:
    signed = signed_fields(KEY, SECRET, ext, body)
    items = list(signed.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert is_signed_with(SECRET, dict(items), body, 479)


@settings(max_examples=40)
@given(FIELDS, st.binary(max_size=20))
def test_a_signature_is_the_hmac_of_sorted_values_and_body(ext: dict[str, str], body: bytes) -> None:
    signed = signed_fields(KEY, SECRET, ext, body)
    kept = {name: value for name, value in signed.items() if name != SIGNATURE}
    values = [value for _, value in sorted(kept.items(), key=lambda item: item[0].encode("utf-16-be"))]
    content = "".join(values).encode() + body
    assert signed_content(signed, body) == content
    assert hmac.new(b"12345678", content, "sha1").digest().hex() == _hex(signed[SIGNATURE])


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_secrets_of_all_lengths_make_the_hmac_of_the_standard_library(length: int) -> None:
    key = "ä" * length
    expected = hmac.new(key.encode(), b"content", "sha1").digest()
    assert _hex(Secret(key).sign(b"content")) == expected.hex()
    assert _hex(Secret("k" * length).sign(b"")) == hmac.new(b"k" * length, b"", "sha1").hexdigest()


def test_another_value_body_secret_or_field_is_a_wrong_signature() -> None:
    signed = signed_fields(KEY, SECRET, {"topic": "T"}, b"body")
    assert is_signed_with(SECRET, signed, b"body", 479)
    assert not is_signed_with(SECRET, {**signed, "topic": "U"}, b"body", 479)
    assert not is_signed_with(SECRET, {**signed, "more": "x"}, b"body", 479)
    assert not is_signed_with(SECRET, {**signed, "SecurityToken": "x"}, b"body", 479)
    assert not is_signed_with(SECRET, signed, b"bodY", 479)
    assert not is_signed_with(Secret("12345679"), signed, b"body", 479)


@pytest.mark.parametrize("signature", ["", "é", "Ou1T58RIcyZWaTIwzkhJZWn/Zvs", "ou1T58RIcyZWaTIwzkhJZWn/Zvs="])
def test_a_signature_is_compared_as_a_whole(signature: str) -> None:
    assert not is_signed_with(SECRET, {ACCESS_KEY: KEY, SIGNATURE: signature}, b"", 479)
    assert not is_signed_with(SECRET, {ACCESS_KEY: KEY}, b"", 479)


def test_only_old_clients_may_add_the_late_field_after_signing() -> None:
    late = {**signed_fields(KEY, SECRET, {"topic": "T"}, b""), LATE_FIELD: "false"}
    assert is_signed_with(SECRET, late, b"", LATE_FIELD_VERSION_MAX)
    assert not is_signed_with(SECRET, late, b"", LATE_FIELD_VERSION_MAX + 1)


def test_names_beyond_the_bmp_are_ordered_as_java_orders_them() -> None:
    assert signed_content({"\U0001f600": "emoji", "\uffff": "last"}, b"") == b"emojilast"


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret("hunter22-hunter22")
    try:
        raise ValueError(secret)
    except ValueError:
        text = traceback.format_exc()
    shown = [text, str(secret), repr(secret), f"{secret}", f"{[secret]}"]
    assert not [one for one in shown if "hunter" in one]
    assert secret.reveal() == "hunter22-hunter22"


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        Secret("")


def _hex(signature: str) -> str:
    import base64

    return base64.b64decode(signature).hex()
