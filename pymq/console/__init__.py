"""The web console: pages about clusters, PyMQ's and Apache RocketMQ's, made of what the client library answers.

``web`` has a web server's rules without a cluster: who may ask, how much, and the headers of every answer. ``people``
are log-in and sessions. ``asking`` puts a person's questions to a cluster. ``pages`` are the pages, as data and as HTML.
"""
