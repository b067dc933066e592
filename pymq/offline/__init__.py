"""Works on a store directory without a broker: verify, inspect, dump, repair."""
