"""``pymq standalone``: a name server and brokers in one process, or a process for each shard."""
