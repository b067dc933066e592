"""A kombu transport on PyMQ: Celery's broker_url ``pymq://user:secret@host:9876/prefix``.

kombu has no hook for transports of other packages, and its URLs may not name a module. Its module of serializers, which
Celery imports, does load entry points. This package has one there, which enters the scheme ``pymq`` and registers
nothing else. ``import pymq_celery`` does the same, for programs that use kombu without Celery.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

SCHEME = "pymq"
# What kombu.serialization.register takes: without encoder and decoder it does nothing.
SERIALIZER = (None, None, "application/x-pymq")

TRANSPORT_ALIASES[SCHEME] = "pymq_celery.transport:Transport"
