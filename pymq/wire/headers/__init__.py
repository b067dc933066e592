"""Typed headers by subject: one class per request or response header, fields declared with their wire names."""
