"""``pymq spark-export``, ``spark-import`` and ``spark-sql``."""
