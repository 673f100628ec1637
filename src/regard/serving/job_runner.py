"""What answers the requests to a model."""

from typing import Protocol, runtime_checkable

from regard.serving.job import Job


@runtime_checkable
class JobRunner(Protocol):
    """A `Scheduler` in this process, or `Workers`, which are others."""

    @property
    def busy(self) -> bool:
        """True if a request is not answered yet."""
        ...

    def submit(self, job: Job) -> None:
        """Put a request into the queue. If it has no room, that is raised, or `job` is finished by it.

        Raises:
            QueueFull: there is no room, or the request would wait past its deadline. Closed: see `close`.
        """
        ...

    def cancel(self, job: Job) -> None:
        """Drop a request; nothing happens if it is answered."""
        ...

    def close(self, wait: bool = ...) -> None:
        """Take no more requests, and end when all are answered."""
        ...

    def abort(self) -> None:
        """Refuse all requests that are not answered, and end soon."""
        ...
