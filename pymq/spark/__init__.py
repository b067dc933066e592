"""Topics in Spark and Parquet: planning, vectorized reading and exactly-once export. Imports nothing by itself."""
