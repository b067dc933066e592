"""The name server: which brokers are alive and where each topic's queues are. Keeps everything in memory only."""
