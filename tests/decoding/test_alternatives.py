"""The most probable tokens at each step of a row."""

import numpy as np
import pytest
import torch

from regard.decoding.alternatives import Alternatives
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.running_batch import RunningTranslations
from regard.decoding.sampling import Sampling, Temperature, TopK
from regard.decoding.search import BeamSearch, GreedySearch
from regard.errors import ConfigError
from tests.decoding.small_models import translator


def test_copies_of_a_row_share_the_steps_before():
    found = Alternatives(2, 2)
    found.rank(torch.tensor([[0.0, -1.0, -2.0], [-2.0, -1.0, 0.0]]))
    found.move(np.array([1, 1, 0]))
    found.append()
    found.rank(torch.tensor([[-1.0, 0.0, -2.0]] * 3))
    second = ((1, 0.0), (0, -1.0))
    assert found.of_row(0, 2) == found.of_row(1, 2) == [((2, 0.0), (1, -1.0)), second]
    assert found.of_row(2, 3) == [(), ((0, 0.0), (1, -1.0)), second]  # after a token that was begun with
    found.append()
    found.join(1)
    assert found.of_row(3, 2) == [(), ()]


def test_there_are_no_more_of_them_than_tokens():
    """A step that ranks more than the vocabulary has gives minus infinity for the rest."""
    found = Alternatives(3, 1)
    found.record(np.array([[0.0, -1.0, -np.inf]]), np.array([[1, 0, 0]]))
    assert found.of_row(0, 1) == [((1, 0.0), (0, -1.0))]
    found.rank(torch.tensor([[0.0, -1.0]]))
    assert found.of_row(0, 1) == [((0, 0.0), (1, -1.0))]


@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch, Sampling])
def test_they_are_those_of_the_model_before_rules_and_filters(kind):
    model, (bos, eos) = translator(), (2, 3)
    filters = {"filters": (Temperature(temperature=2.0), TopK(k=5)), "seed": 3} if kind is Sampling else {}
    search = kind(
        limits=LengthLimits(ratio=0.0, offset=4), rules=(BannedTokens(ids=(0, 1, 2, 7)),), **filters
    )
    batch, sources = RunningTranslations(search, [model], alternatives=3), [[4, 5, 9], [6, 14]]
    batch.add(sources[:1])
    found = dict(batch.step())
    batch.add(sources[1:])  # joins the first
    while batch:
        found |= dict(batch.step())
    for number, source in enumerate(sources):
        [hypothesis] = found[number]
        ids = torch.tensor([[bos, *hypothesis.ids]])
        given = torch.tensor([[*source, eos]])
        with torch.no_grad():
            log_probs = model(given, torch.tensor([len(source) + 1]), ids)[0].log_softmax(-1)
        assert len(hypothesis.alternatives) == len(hypothesis.token_log_probs)
        for step, ranked in enumerate(hypothesis.alternatives):
            expected = log_probs[step].topk(3)
            assert [token for token, _ in ranked] == expected.indices.tolist()
            assert [each for _, each in ranked] == pytest.approx(expected.values.tolist(), abs=1e-4)


def test_a_search_that_does_not_record_them_is_refused():
    with pytest.raises(ConfigError, match="DiverseBeamSearch does not record the alternatives"):
        RunningTranslations(DiverseBeamSearch(size=4), translator(), alternatives=1)
