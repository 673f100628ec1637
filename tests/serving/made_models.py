"""Models that load at once, what answers for them, and requests without a connection."""

import asyncio

from regard.serving.access_log import AccessLog
from regard.serving.engine import Engine
from regard.serving.keys import ApiKeys
from regard.serving.limits import ServerLimits
from regard.serving.metrics import Metrics
from regard.serving.models import ModelStore
from regard.serving.request import ServedRequest
from regard.serving.service import Service
from regard.verbs.serve import ServedModel


class MadeModel(ServedModel):
    """A model of this many bytes, whose answerer is that of a test, whatever the settings."""

    def __init__(self, answerer=None, *, size=0, tasks=("embed",)):
        self.made, self.size, self.tasks = answerer, size, tasks

    @property
    def bytes(self):
        return self.size

    def answerer(self, settings):
        return self.made


class Runner:
    """Takes requests and answers none; counts the calls."""

    def __init__(self):
        self.busy, self.jobs, self.calls = False, [], []

    def submit(self, job):
        self.jobs.append(job)

    def cancel(self, job):
        self.calls.append("cancel")

    def close(self, wait=False):
        self.calls.append("close")

    def abort(self):
        self.calls.append("abort")


def service_with(engines, limits=None):
    """A service of these engines (name -> engine); None: the model is not loaded."""
    metrics = Metrics()
    store = ModelStore(
        dict.fromkeys(engines), lambda path, observer: Engine(MadeModel(), Runner()), metrics=metrics
    )
    for name, engine in engines.items():
        store.slots[name].engine = engine
    return Service(
        models=store, limits=limits or ServerLimits(), keys=ApiKeys([]), metrics=metrics, log=AccessLog()
    )


def request_of(*parts, headers=None, ends=True, disconnects=False):
    """A request whose body comes in these parts, and `ends` or not; then its client waits, or is gone."""
    fields = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": fields}
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if messages and ends and not disconnects:
        messages[-1]["more_body"] = False
    if disconnects:
        messages.append({"type": "http.disconnect"})

    async def receive():
        return messages.pop(0) if messages else await asyncio.Future()

    return ServedRequest(scope, receive)
