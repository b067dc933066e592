"""A Spark session: its JVM, its executors, its errors, and the progress that callers see."""
