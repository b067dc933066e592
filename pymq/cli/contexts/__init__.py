"""Contexts: clusters by name. A file in the user's configuration keeps their name servers, and which one is current.

``file`` reads and writes it, ``choice`` finds those of a command. ``pymq context`` is :mod:`pymq.cli.context`.
"""
