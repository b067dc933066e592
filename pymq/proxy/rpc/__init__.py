"""gRPC over HTTP/2: framing, calls, connections, a server. Nothing here knows RocketMQ."""
