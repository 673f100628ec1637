"""The metrics of a server: what a scheduler reports is counted for its model."""

from regard.serving.metrics import Metrics, ModelObserver


def test_batches_and_the_queue_are_counted_for_their_model():
    metrics = Metrics()
    observers = {name: ModelObserver(metrics, name) for name in "ab"}
    observers["a"].batch(3, 0.5)
    observers["a"].batch(1, 0.25)
    observers["a"].queue(7)
    observers["a"].queue(5)

    def values(model):
        names = ("batch_rows_sum", "batch_rows_count", "batch_seconds_sum", "queued_requests")
        return [metrics.registry.get_sample_value(f"regard_{name}", {"model": model}) for name in names]

    assert values("a") == [4, 2, 0.75, 5]
    assert values("b") == [0, 0, 0, 0]
