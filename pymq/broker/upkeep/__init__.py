"""Work that goes on beside requests: flushing, retention, maintenance of old segments, threads and jobs."""
