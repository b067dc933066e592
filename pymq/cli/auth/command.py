"""``pymq auth``: its commands, each in a module of its own."""

from __future__ import annotations

from pymq.cli.auth.cert import cert
from pymq.cli.lazy import examples, new_app

app = new_app("Make certificates for servers and clients.")


@app.callback()
def auth() -> None:
    """Make certificates for servers and clients."""


app.command(
    epilog=examples(
        "pymq auth cert certificates --name broker-a --host 10.0.0.5",
        "pymq auth cert certificates --name billing",
        "pymq auth cert certificates --name broker-a --host 10.0.0.5 --replace",
    )
)(cert)
