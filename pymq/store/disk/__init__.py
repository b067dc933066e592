"""What the store asks of a disk: the file seam, a file system in memory, and small files that survive any crash."""
