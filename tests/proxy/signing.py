"""Signed metadata, as RocketMQ's 5.x clients make them."""

from __future__ import annotations

import hashlib
import hmac

TIME = "20260101T000000Z"
TIME_MS = 1_767_225_600_000


def signed_metadata(user: str, secret: str, content: str | None = None, time: str = TIME) -> dict[str, str]:
    """Return the metadata of a call that ``user`` signs; ``content`` is what it signs in the place of the time."""
    signature = hmac.new(secret.encode(), (content or time).encode(), hashlib.sha1).hexdigest().upper()
    text = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": text, "x-mq-date-time": time}
