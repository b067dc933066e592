"""What is known about working on a cluster: plans, checks, sums, views of brokers, and their records.

A module per subject, a package per noun. Operations ask through :mod:`pymq.client.admin`, return plain values, and
print nothing: the command line is one view of them.
"""
