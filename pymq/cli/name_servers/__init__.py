"""``pymq namesrv status`` and ``kv``, and ``pymq topic order``: what the running name servers of a cluster know."""
