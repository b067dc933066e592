"""``pymq filter-server``: runs a filter server."""
