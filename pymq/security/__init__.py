"""Identity and permission without I/O: signatures, users, policies, and RocketMQ's forms of both."""
