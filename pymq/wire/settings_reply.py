"""The answer to requests for a server's settings (26 of a broker, 319 of a name server)."""

from __future__ import annotations

from pymq.config.runtime import RuntimeSettings
from pymq.wire.headers.admin import ConfigAnswer, GetConfigHeader
from pymq.wire.reply import Reply


def settings_reply(settings: RuntimeSettings, header: GetConfigHeader) -> Reply:
    """Return all settings as properties text, secrets masked, and where values came from if ``header`` asks for it."""
    answer = ConfigAnswer(version=settings.version)
    if header.origins:
        changeable = ";".join(settings.config.names_at_runtime())
        answer = ConfigAnswer(version=settings.version, origins=settings.origins(), changeable=changeable)
    return Reply(ext=answer, body=settings.as_text().encode())
