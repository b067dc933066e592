"""Topics in Spark and Parquet: planning, vectorized reading and exactly-once export. Imports nothing by itself.

ARCHITECTURE.md lists the rooms, from the lowest one up.
"""
