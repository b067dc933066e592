"""The commit log's files: segments of equal size, plain or compressed."""
