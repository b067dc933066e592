"""A store from start to stop: recovery, checkpoints, housekeeping, retention, compression."""
