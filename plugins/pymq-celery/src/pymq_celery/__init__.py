"""A kombu transport on PyMQ: Celery's broker_url ``pymq://user:secret@host:9876/prefix``.

kombu has no hook for transports of other packages, and its URLs may not name a module. It does load the entry points of
serializers when it is imported. This package has one, which enters the scheme ``pymq`` and registers nothing else.
``import pymq_celery`` does the same.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

SCHEME = "pymq"
# What kombu.serialization.register takes: without encoder and decoder it does nothing.
SERIALIZER = (None, None, "application/x-pymq")

TRANSPORT_ALIASES[SCHEME] = "pymq_celery.transport:Transport"
