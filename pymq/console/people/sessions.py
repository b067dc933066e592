"""Sessions: who a browser's requests are from.

A session is known by 256 random bits in a cookie, of which the console keeps a hash alone. A person's secret key is in
the session and nowhere else: it signs that person's requests to the cluster.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.security.credentials import Credentials

IDLE_MAX_MS: Final = 30 * 60 * 1000
AGE_MAX_MS: Final = 12 * 3600 * 1000
SESSION_COUNT_MAX: Final = 1000
SESSION_COUNT_OF_PERSON_MAX: Final = 20
_TOKEN_BYTES: Final = 32
_COOKIE_BYTES_MAX: Final = 8192


class FullError(PymqError):
    """There are as many sessions as there may be."""


@dataclass(eq=False)
class Session:
    """One person's log-in with one browser. ``name``: the access key, empty where the cluster checks no users.

    ``token`` stands in each form, so that no other page can send one. ``on_end``: what is called when the
    session ends, by who asks for it.
    """

    key: str
    name: str
    address: str
    context: str
    credentials: Credentials | None = field(repr=False)
    token: str = field(repr=False)
    begun_ms: int
    seen_ms: int
    on_end: dict[Hashable, Callable[[], None]] = field(default_factory=dict, repr=False)

    def has_token(self, token: str) -> bool:
        """Return whether a form came from a page of this session."""
        return hmac.compare_digest(self.token.encode(), token.encode("utf-8", "surrogatepass"))


class Sessions:
    """The sessions of one console, by the hash of their cookie. Times are of ``clock``'s monotonic side."""

    def __init__(
        self,
        clock: Clock,
        port: int,
        contexts: Iterable[str],
        draw_token: Callable[[int], str] = secrets.token_urlsafe,
    ) -> None:
        """``contexts``: their names; a person logs in to each one.

        ``port``: a browser sends cookies to every port of a host, so each console has cookies of its own.
        """
        self._cookie_names = {context: f"__Host-pymq-{port}-{at}" for at, context in enumerate(contexts)}
        self._clock = clock
        self._draw_token = draw_token
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def open(self, name: str, credentials: Credentials | None, address: str, context: str) -> tuple[Session, str]:
        """Begin a session; return it and the value of its cookie. Raises FullError.

        The oldest session of a person with too many ends.
        """
        self.end_old()
        of_person = [each for each in self._sessions.values() if each.name == name]
        if len(of_person) >= SESSION_COUNT_OF_PERSON_MAX:
            self.end(min(of_person, key=lambda each: each.seen_ms))
        if len(self._sessions) >= SESSION_COUNT_MAX:
            raise FullError(f"{SESSION_COUNT_MAX:,} sessions are open: log in again in a few minutes")
        cookie = self._draw_token(_TOKEN_BYTES)
        now_ms = self._clock.monotonic_ms()
        session = Session(
            _hash(cookie), name, address, context, credentials, self._draw_token(_TOKEN_BYTES), now_ms, now_ms
        )
        self._sessions[session.key] = session
        return session, cookie

    def find(self, cookies: list[bytes], context: str) -> Session | None:
        """Return the session in a context of a request with these Cookie headers, and note that it is in use."""
        value = self._value_in(cookies, context)
        session = self._sessions.get(_hash(value)) if value else None
        if session is None or session.context != context:
            return None
        now_ms = self._clock.monotonic_ms()
        if self._is_over(session, now_ms):
            self.end(session)
            return None
        session.seen_ms = now_ms
        return session

    def end(self, session: Session) -> None:
        """End a session and what belongs to it. A session that has ended stays so."""
        if self._sessions.pop(session.key, None) is None:
            return
        for listener in list(session.on_end.values()):
            listener()

    def end_old(self) -> None:
        """End the sessions that are idle or old."""
        now_ms = self._clock.monotonic_ms()
        for session in self:
            if self._is_over(session, now_ms):
                self.end(session)

    def set_cookie(self, context: str, value: str) -> str:
        """Return the Set-Cookie header of a session's begin."""
        return f"{self._cookie_names[context]}={value}; Path=/; Secure; HttpOnly; SameSite=Strict"

    def clear_cookie(self, context: str) -> str:
        """Return the Set-Cookie header of a session's end."""
        return f"{self._cookie_names[context]}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict"

    def _value_in(self, cookies: list[bytes], context: str) -> str | None:
        name = self._cookie_names.get(context)
        if name is None or sum(map(len, cookies)) > _COOKIE_BYTES_MAX:
            return None
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load("; ".join(each.decode("ascii") for each in cookies))
        except (CookieError, UnicodeDecodeError):
            return None
        morsel = jar.get(name)
        return None if morsel is None else morsel.value

    @staticmethod
    def _is_over(session: Session, now_ms: int) -> bool:
        return now_ms - session.seen_ms >= IDLE_MAX_MS or now_ms - session.begun_ms >= AGE_MAX_MS


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
