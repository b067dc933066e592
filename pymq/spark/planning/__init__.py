"""What is read: clusters and store directories, their queues, positions in them, and the ranges between."""
