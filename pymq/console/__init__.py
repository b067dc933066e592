"""The web console: pages about clusters, PyMQ's and Apache RocketMQ's, made of what the client library answers.

``web`` has the rules of a web server without a cluster: who may ask, how much, and the headers of every answer.
``people`` are log-in and sessions. ``asking`` puts the questions of a person to a cluster. ``pages`` are the pages, as
data and as HTML.
"""
