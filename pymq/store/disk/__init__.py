"""Access to the disk: the file seam, a file system in memory, and small files that survive any crash."""
