"""``pymq auth``: who may do what, and the certificates that prove it."""
