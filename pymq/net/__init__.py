"""Sockets and event loop: carries the protocol's bytes and knows nothing of what requests mean."""
