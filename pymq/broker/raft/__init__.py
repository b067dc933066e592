"""Raft groups: everything around the core in :mod:`pymq.raft` that needs settings, files or the wire."""
