"""``pymq namesrv``: runs a name server, and shows what running name servers know."""
