"""The roles of brokers: how a broker learns about its group, and how it changes its role."""
