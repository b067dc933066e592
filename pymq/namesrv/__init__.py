"""The name server: which brokers are alive and where each topic's queues live. Keeps everything in memory only."""
