"""Brokers: lists, status, promotion of a slave, and draining."""
