"""A broker's settings: change them (25), show them (26), and say what a change would delete (9110)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pymq.broker.metadata.late import answer_when_saved
from pymq.broker.runtime import Runtime
from pymq.config.runtime import BusyError, Change, RuntimeSettings, StaleError
from pymq.errors import ConfigError, Refusal
from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import GetConfigHeader, UpdateConfigHeader
from pymq.wire.reply import Reply
from pymq.wire.settings_reply import settings_reply

if TYPE_CHECKING:
    from pymq.broker.messages.waiting_answers import WaitingAnswers
    from pymq.broker.upkeep.cleaner import Cleaner

log = logging.getLogger(__name__)


class SettingsHandlers:
    """Shows the settings, and changes them while the broker runs."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        runtime_settings: RuntimeSettings,
        on_settings: Callable[[Collection[str]], None],
        waiting_answers: WaitingAnswers,
        cleaner: Cleaner,
    ) -> None:
        """``on_settings`` hears the names of the settings that have changed."""
        self._config = runtime.config
        self._runtime_settings = runtime_settings
        self._on_settings = on_settings
        self._waiting_answers = waiting_answers
        self._cleaner = cleaner

    def update_config(self, request: Command, header: UpdateConfigHeader, peer: Peer) -> Reply | None:
        """Change settings that can change at run time, all or none: until the broker stops, or kept beyond that."""
        settings = self._runtime_settings
        try:
            change = settings.plan(
                request.body, forget=header.forget, is_kept=header.persist, version=header.expected_version
            )
        except ConfigError as error:
            log.warning("%s may not change the configuration: %s", peer.address, error)
            raise Refusal(_refusal_code(error), str(error)) from error
        if change.kept is None:
            return self._apply(change, peer)
        settings.save(change, answer_when_saved(request, peer, lambda: self._apply(change, peer)))
        return None

    def _apply(self, change: Change, peer: Peer) -> Reply:
        changed = self._runtime_settings.apply(change)
        if changed:
            text = ", ".join(f"{name}={value}" for name, value in changed.items())
            log.info("%s changed the configuration%s: %s", peer.address, " and kept it" * change.is_kept, text)
            self._on_settings(changed)
            self._waiting_answers.release_confirmed()  # other answers can go now, or fewer sends are taken
        return Reply()

    def plan_config(self, request: Command, header: UpdateConfigHeader, peer: Peer) -> Reply:
        """Say which segments retention would delete after a change of settings, and change nothing."""
        try:
            change = self._runtime_settings.plan(request.body, forget=header.forget)
            changed = self._config.with_runtime_changes(change.values, forget=change.forget)
        except ConfigError as error:
            raise Refusal(_refusal_code(error), str(error)) from error
        return Reply(body=encode_admin_body(self._cleaner.plan(changed)))

    def config(self, request: Command, header: GetConfigHeader, peer: Peer) -> Reply:
        """Return all settings as properties text, with secrets masked."""
        return settings_reply(self._runtime_settings, header)


def _refusal_code(error: ConfigError) -> int:
    if isinstance(error, BusyError):
        return ResponseCode.SYSTEM_BUSY
    return ResponseCode.SYSTEM_ERROR if isinstance(error, StaleError) else ResponseCode.NO_PERMISSION
