"""Topics in Spark and Parquet: planning, vectorised reading and exactly-once export. Imports nothing by itself."""
