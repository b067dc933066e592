"""Background work: flushing, retention, maintenance of old segments, threads and jobs."""
