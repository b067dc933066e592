"""Filter expressions over message properties: SQL92 as RocketMQ defines it."""
