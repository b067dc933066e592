"""Figures for Prometheus: what a metric is, its text, and the endpoint that every role serves it from."""
