"""``pymq top``: brokers, topics and groups with their rates, live.

:mod:`screen` makes lines of rates, :mod:`live` shows them on a terminal and takes keys, :mod:`plain` prints them one
after the other.
"""
