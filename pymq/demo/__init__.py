"""The guided tour of scripts/demo: sends real data through a broker, a consumer group, Parquet and Spark SQL."""
