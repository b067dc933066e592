"""Storage without network: RocketMQ's directory of commit log, consume queues, key index and JSON tables."""
