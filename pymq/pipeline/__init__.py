"""Pipelines: a TOML file that says what to read, compute and write runs as one Spark session."""
