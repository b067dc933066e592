"""Completion in bash, zsh and fish, with the names of topics, groups, brokers and clusters that the cluster knows now.

``shells`` installs and shows the scripts and answers them, ``names`` finds the names.
"""
