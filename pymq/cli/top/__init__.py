"""``pymq top``: brokers, topics and groups with their rates, live.

:mod:`sample` asks the brokers for counters, :mod:`rates` makes rates of two samples, :mod:`screen` makes lines of them,
:mod:`live` shows these on a terminal and takes keys, :mod:`plain` prints them one after the other.
"""
