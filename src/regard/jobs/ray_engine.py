"""Processes on a cluster of Ray, which places them; what they do is in the plan (see `engine.py`)."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import MissingExtra, RunError, UserError
from regard.jobs.engine import WorkerLost
from regard.jobs.part_worker import Message, PartWorker

NAME, REMOTE = "ray", "ray://"
LOOK, SILENT = 2.0, 5  # seconds between two looks at the head; how often it may be silent
TOKEN_VARIABLES, TOKEN_FILE = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"), ".ray/auth_token"  # Ray's
AGAIN = "is the cluster up? then give the same command again"
CONNECT = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}


@contextmanager
def ray_engine(
    address: str, order: str, *, processes: int | None, cpus: int, gpu: bool | None
) -> Iterator["RayEngine"]:
    """A connection to a cluster.

    Args:
        address: "ray://HOST:PORT", or "ray": the cluster of RAY_ADDRESS or of this machine, else a new one.
        order: a JobOrder as JSON.
        processes: how many; None is as many as the cluster has room for.
        cpus: of each process.
        gpu: whether each has one; None is if the cluster has any.

    Raises:
        MissingExtra: Ray is not installed. RunError: there is no cluster at this address.
    """
    if address.startswith(REMOTE):
        _send_token()
    try:
        import ray  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise MissingExtra("ray", "jobs-ray", f"--on {address}") from None
    _connect(ray, address)
    try:
        yield RayEngine(ray, address, order, processes, cpus, gpu)
    except (ray.exceptions.RayError, ConnectionError) as error:  # pyright: ignore[reportAttributeAccessIssue]
        raise _lost_cluster(address, error) from error
    finally:
        ray.shutdown()


class RayEngine:
    """Actors of Ray, each of which holds a PartWorker. Ray restarts none of them: the caller does."""

    def __init__(
        self, ray: Any, address: str, order: str, processes: int | None, cpus: int, gpu: bool | None
    ) -> None:
        self._ray, self._order, self._processes = ray, order, processes
        is_here = not address.startswith(REMOTE)  # a client's errors say that its head is gone
        self._head: str | None = ray.get_runtime_context().gcs_address if is_here else None
        self._silent, self._looks = 0, 0.0
        gpus = int(bool(ray.cluster_resources().get("GPU"))) if gpu is None else int(gpu)
        self._each = {"CPU": cpus, "GPU": gpus}
        self._actor = ray.remote(PartWorker).options(
            num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0
        )

    def wanted(self) -> int:
        """As many processes as were asked for, or as the cluster has room for now."""
        self._look()
        if self._silent:  # Ray's own calls would wait for it
            return 0
        if self._processes is not None:
            return self._processes
        there = self._ray.cluster_resources()
        return max(1, min(int(there.get(name, 0) // each) for name, each in self._each.items() if each))

    def _look(self) -> None:
        self._looks = time.monotonic() + LOOK
        if self._head is not None:
            self._silent = 0 if _answers(self._head) else self._silent + 1

    def start(self) -> Any:
        """A new actor, which Ray places where there is room."""
        return self._actor.remote(self._order)

    def call(self, worker: Any, method: str, argument: Any) -> Any:
        """Begin a call."""
        return getattr(worker, method).remote(argument)

    def ready(self, tickets: Sequence[Any], seconds: float) -> Sequence[Any]:
        """The calls that have ended.

        Raises:
            RunError: the head of the cluster is gone. (Ray itself ends this process, a minute later.)
        """
        if time.monotonic() >= self._looks:
            self._look()
        if self._silent >= SILENT:
            raise RunError(f"the head of the cluster, {self._head}, does not answer", AGAIN)
        return self._ray.wait([*tickets], num_returns=1, timeout=seconds)[0] if tickets else []

    def result(self, ticket: Any) -> Message:
        """What a call returned."""
        errors = self._ray.exceptions
        lost = (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError, errors.RayTaskError)
        try:
            return self._ray.get(ticket)
        except lost as error:
            raise WorkerLost(" ".join(str(error).split())[:300]) from error

    def stop(self, worker: Any) -> None:
        """End an actor; without its head a cluster cannot."""
        if not self._silent:
            self._ray.kill(worker)


def _send_token() -> None:
    """Let Ray's client send the token that this machine has: by default, that of Ray 2.60 sends none."""
    has_token = any(name in os.environ for name in TOKEN_VARIABLES) or (Path.home() / TOKEN_FILE).exists()
    if has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK).close()
    except OSError:
        return False
    return True


def _connect(ray: Any, address: str) -> None:
    try:
        if address != NAME:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        elif os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=False, logging_level="ERROR")
        else:
            try:
                ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
            except ConnectionError:
                ray.init(**CONNECT)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _lost_cluster(address, error) from error


def _lost_cluster(address: str, error: Exception) -> RunError | UserError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return RunError(f"--on {address}: {reason}", AGAIN)
