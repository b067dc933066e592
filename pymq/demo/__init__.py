"""The guided tour behind scripts/demo: real data through a broker, a consumer group, Parquet and Spark SQL."""
