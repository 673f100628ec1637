"""Learned metrics with random weights, of the symbols of the untrained translator; an engine for jobs."""

import json
from contextlib import contextmanager

import pytest


@pytest.fixture(scope="session")
def metrics(untrained, tmp_path_factory):
    """A folder with a metric of each kind: by name."""
    import torch

    from regard.data.tokenizer import TokenizerPair
    from regard.models.build import build_model
    from regard.models.translation_metric import TranslationMetricConfig
    from regard.weights.folder import write_folder
    from regard.weights.model_folder import model_files
    from regard.weights.tensors import model_tensors

    tokenizer = TokenizerPair.load(untrained).source
    kinds = {
        "apart": {"reads": ("source", "reference"), "joined": False},
        "source-apart": {"reads": ("source",), "joined": False},
        "source-joined": {"reads": ("source",), "joined": True, "pooling": "cls"},
        "joined": {"reads": ("source", "reference"), "joined": True, "pooling": "cls"},
    }
    shape = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_layers": 2, "max_positions": 24}
    generator = torch.Generator().manual_seed(4)
    folder = tmp_path_factory.mktemp("metrics")
    for name, settings in kinds.items():
        config = TranslationMetricConfig(
            vocab_size=tokenizer.vocab_size, hidden_sizes=(8,), num_token_types=0, **shape, **settings
        )
        model = build_model(config, seed=1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        files = model_files(config, (), {"tokenizer.json": tokenizer.to_bytes()}, 'name = "random"\n')
        write_folder(folder / name, {**files, "model.safetensors": model_tensors(model)})
    return folder


class InTurn:
    """An engine of processes that are none: a call runs when it is waited for."""

    def __init__(self, order):
        self.order = order

    def wanted(self):
        return 2

    def start(self):
        from regard.jobs.part_worker import PartWorker  # after the hook that checks types

        return PartWorker(self.order)

    def call(self, worker, method, argument):
        return (len(method), id(worker)), worker, method, argument

    def ready(self, tickets, seconds):
        return tickets[:1]

    def result(self, ticket):
        _, worker, method, argument = ticket
        return json.loads(json.dumps(getattr(worker, method)(argument)))

    def stop(self, worker):
        pass


@pytest.fixture
def engine(monkeypatch):
    """What the engine was asked for."""
    from regard.verbs import engine_jobs

    asked = {}

    @contextmanager
    def placed(address, order, **resources):
        asked.update(resources, address=address, order=json.loads(order))
        yield InTurn(order)

    monkeypatch.setattr(engine_jobs, "ray_engine", placed)
    return asked
