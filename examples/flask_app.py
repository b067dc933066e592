"""A web service with Flask, and a worker in a process of its own.

pip install flask
flask --app flask_app run
python flask_app.py                       (the worker)
curl -X POST 127.0.0.1:5000/mails -d 'to=ann@example.org'
"""

import os

from flask import Flask, jsonify, request

import pymq
from pymq.client import Message
from pymq.client.sync import Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

app = Flask(__name__)
# One producer for all threads. It connects with the first send, so also in the workers that a server forks.
producer = Producer("web", namesrv=NAMESRV)
producer.start()


@app.post("/mails")
def mail():
    """Answer at once: the worker sends the mail, and tries again if it fails."""
    result = producer.send(Message("Mails", request.form["to"].encode()))
    return jsonify(message_id=result.message_id), 202


worker = pymq.App(group="mailer", namesrv=NAMESRV)


@worker.on("Mails", consume_from="first")
def deliver(message) -> None:  # a plain function runs in a thread, so it may block
    print(f"mail to {message.content().decode()}", flush=True)


if __name__ == "__main__":
    worker.run()
