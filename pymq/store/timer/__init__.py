"""The files of timer messages: wheel, log and checkpoint, byte for byte as RocketMQ's."""
