"""The metrics of a server, for Prometheus. No label holds a text, a key or an address."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one server."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "regard_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "From the headers of a request to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "regard_queue_seconds",
            "A request's wait until its first text is computed.",
            ["model"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.first_part_seconds = Histogram(
            "regard_first_part_seconds",
            "From the headers of a request to the first part of a streamed answer.",
            ["model"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.queued = Gauge(
            "regard_queued_requests", "Requests that wait.", ["model"], registry=self.registry
        )
        self.in_flight = Gauge(
            "regard_requests_in_flight", "Requests without a whole answer.", registry=self.registry
        )
        self.batch_rows = Histogram(
            "regard_batch_rows", "Texts of a batch.", ["model"], buckets=ROWS, registry=self.registry
        )
        self.batch_seconds = Histogram(
            "regard_batch_seconds", "Time of a batch.", ["model"], buckets=SECONDS, registry=self.registry
        )
        self.tokens = Counter("regard_output_tokens", "Tokens of answers.", ["model"], registry=self.registry)
        self.rejected = Counter(
            "regard_rejected_requests", "Refused requests by reason.", ["reason"], registry=self.registry
        )
        self.cancelled = Counter(
            "regard_cancelled_requests", "Requests whose client left.", ["model"], registry=self.registry
        )
        self.loads = Counter(
            "regard_model_loads", "Loads of a model, reloads among them.", ["model"], registry=self.registry
        )
        self.unloads = Counter(
            "regard_model_unloads", "Unloads of a model.", ["model"], registry=self.registry
        )
        self.loaded_bytes = Gauge(
            "regard_loaded_model_bytes", "Memory of the loaded weights.", registry=self.registry
        )

    def text(self) -> bytes:
        """All of them in Prometheus' format."""
        return generate_latest(self.registry)


class ModelObserver:
    """Reports what the scheduler of one model does."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._rows = metrics.batch_rows.labels(model)
        self._seconds = metrics.batch_seconds.labels(model)
        self._queued = metrics.queued.labels(model)

    def batch(self, rows: int, seconds: float) -> None:
        self._rows.observe(rows)
        self._seconds.observe(seconds)

    def queue(self, requests: int) -> None:
        self._queued.set(requests)
