"""Figures for Prometheus: what a metric is, its text, and the endpoint from which every role serves it."""
