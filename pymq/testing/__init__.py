"""Servers and helpers for tests: the only package that may import anything, and that nothing imports."""
