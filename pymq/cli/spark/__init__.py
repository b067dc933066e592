"""``pymq spark-export``, ``spark-import``, ``spark-sql`` and ``spark-compact``."""
