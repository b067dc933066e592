"""Exports: ranges of topics become files, round by round, and each round is committed."""
