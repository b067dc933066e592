"""Every admin call, typed, one module per noun: the only door through which CLI, console and exporters see a cluster.

Works against PyMQ and Apache RocketMQ (tried: 5.3.3).
"""

from pymq.client.admin.admin import Admin
from pymq.client.admin.cluster import BrokerTarget

__all__ = ["Admin", "BrokerTarget"]
