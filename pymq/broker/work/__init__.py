"""When and where a broker works: periodic jobs, slices of long work, threads that wait for the disk."""
