"""``pymq auth``: its commands, each in a module of its own."""

from __future__ import annotations

from pymq.cli.auth import acls, users
from pymq.cli.auth.cert import cert
from pymq.cli.auth.check import check
from pymq.cli.auth.init import init, reset
from pymq.cli.declared import examples, new_app

app = new_app("Manage users, their rules, and certificates.")


@app.callback()
def auth() -> None:
    """Manage users, what they may do, and certificates."""


app.command(
    epilog=examples("pymq auth init /etc/pymq/auth", "pymq auth init auth --name root -o json"),
)(init)
app.add_typer(users.app, name="user")
app.add_typer(acls.app, name="acl")
app.command(
    epilog=examples(
        "pymq auth check billing Sub Topic:orders",
        "pymq auth check billing Pub Topic:orders --from 10.0.0.7 -b broker-a",
        "pymq auth check billing Sub Group:billing --acl plain_acl.yml",
    )
)(check)
app.command(epilog=examples("pymq auth reset /var/lib/pymq/broker-a --write administrator.yml"))(reset)
app.command(
    epilog=examples(
        "pymq auth cert certificates --name broker-a --host 10.0.0.5",
        "pymq auth cert certificates --name billing",
        "pymq auth cert certificates --name broker-a --host 10.0.0.5 --replace",
    )
)(cert)
