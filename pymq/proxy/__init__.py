"""The proxy: serves RocketMQ's 5.x clients, which speak gRPC, in front of any cluster."""
