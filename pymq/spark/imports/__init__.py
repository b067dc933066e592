"""Imports: rows of files become messages, step by step."""
