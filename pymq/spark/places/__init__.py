"""Where files lie: directories of a file system, and names in an object store."""
