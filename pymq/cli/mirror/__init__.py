"""The room of ``pymq mirror``: copies topics from one cluster to another, at least once and in order of each queue.

``mirror.py`` runs it, ``copying.py`` copies one queue, ``messages.py`` says how a message changes on its way,
``targets.py`` knows names and topics at the target, ``progress.py`` how far it came, ``figures.py`` what is shown.
It works on ``pymq.client`` alone, so either side may be PyMQ or Apache RocketMQ.
"""
