"""The admin client: all admin calls, one module per noun. CLI, console and exporters see a cluster only through it.

Works with PyMQ and Apache RocketMQ (tested: 5.3.3).
"""

from pymq.client.admin.admin import Admin
from pymq.client.admin.asking import BrokerTarget

__all__ = ["Admin", "BrokerTarget"]
