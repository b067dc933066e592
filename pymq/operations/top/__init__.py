"""Samples of counters of brokers, topics and groups (:mod:`sample`), and rates of two samples (:mod:`rates`)."""
