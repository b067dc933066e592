"""Checks of a whole cluster, which name what is wrong with the next step.

:mod:`gather` asks name servers and brokers and makes a :class:`~pymq.operations.doctor.state.ClusterState`; it judges
nothing. Each check is a function from that state to findings, without requests of its own. :mod:`registry` lists them,
and takes further ones from installed packages.
"""
