"""Servers and helpers for tests. This package may import any other, and no other imports it."""
