"""Sockets and the event loop: transports the protocol's bytes, without knowing what requests mean."""
