"""``pymq exporter``: metrics of a whole cluster for Prometheus, gathered through the client library.

:mod:`facts` asks name servers and brokers in the background; scrapes show the newest answers, so they cost brokers
nothing. :mod:`own_names` and :mod:`old_names` make metrics of the facts: PyMQ's, and those of Apache's
rocketmq-exporter.
"""
