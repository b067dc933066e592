"""A web service with Django in one file, and a worker as its command. A project has the parts in files of their own.

pip install django
python django_app.py runserver
python django_app.py work                 (the worker)
curl -X POST 127.0.0.1:8000/mails -d 'to=ann@example.org'
"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

import pymq
from pymq.client import Message
from pymq.client.sync import Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
settings.configure(SECRET_KEY=os.urandom(32), ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], USE_TZ=True)
producer = Producer("web", namesrv=NAMESRV)


@csrf_exempt
@require_POST
def mail(request):
    """Answer at once: the worker sends the mail, and tries again if it fails."""
    producer.start()  # does nothing once it runs
    result = producer.send(Message("DjangoMails", request.POST["to"].encode()))
    return JsonResponse({"message_id": result.message_id}, status=202)


urlpatterns = [path("mails", mail)]
application = get_wsgi_application()
worker = pymq.App(group="django-mailer", namesrv=NAMESRV)


@worker.on("DjangoMails", consume_from="first")
def deliver(message) -> None:  # a plain function runs in a thread, so it may use Django's database
    print(f"mail to {message.content().decode()}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        worker.run()
    else:
        execute_from_command_line(sys.argv)
