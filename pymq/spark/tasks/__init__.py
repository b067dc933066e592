"""What each of Spark's tasks does: it reports its progress, and prepares the Python worker that it runs in."""
