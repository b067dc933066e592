"""Who is master and who slave: roles, how a broker changes its own, and who else is in its group."""
