"""The alignment precision of a model of dates is measured against the known alignment."""

from pathlib import Path

import pytest
import torch

from regard.data.corpus import CorpusSettings, LinePolicy, Pair, open_corpus
from regard.data.date_alignment import date_origins
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.inspection.alignment import Alignment
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.verbs.shared import date_precision as module
from regard.verbs.shared.date_precision import date_precision
from regard.weights.model_folder import LoadedModel


def model_attending_to(corpus, looks, monkeypatch):
    """A model that attends to the source positions `looks` for each character of a date."""
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="characters"))
    pairs = {tuple(tokenizers.source.encode(pair.source)): pair for pair in corpus}

    def align_by_best_layer(model, src_ids, tgt_ids, *, bos_id, eos_id):
        pair = pairs[tuple(src_ids)]
        weights = torch.zeros(len(pair.target), len(pair.source))
        for target, source in looks(pair).items():
            weights[target, source] = 1.0
        return Alignment("cross", 0, None, "", weights)

    monkeypatch.setattr(module, "align_by_best_layer", align_by_best_layer)
    size = tokenizers.source.vocab_size
    config = EncoderDecoderConfig(src_vocab_size=size, tgt_vocab_size=size, d_model=8, num_heads=1, d_ff=8)
    return LoadedModel(
        model=build_model(config),
        config=config,
        tokenizer_pair=tokenizers,
        labels=(),
        generation={},
        path=Path("model"),
    )


def perfect(pair: Pair):
    return {target: min(found) for target, found in date_origins(pair.source, pair.target).items()}


@pytest.fixture
def corpus(tmp_path):
    settings = CorpusSettings(synthetic="dates", size=30, seed=1, languages=("en", "fr"))
    return open_corpus(settings, LinePolicy(), tmp_path)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        (perfect, 1.0),
        (lambda pair: {**perfect(pair), 4: 0, 7: 0}, 1.0),  # the origin of hyphens is unknown
        (lambda pair: {place: found for place, found in perfect(pair).items() if place < 3}, 1.0),
        (lambda pair: {**perfect(pair), 8: perfect(pair)[0] + 1}, 7 / 8),
        (lambda pair: {}, None),
    ],
)
def test_the_precision_is_the_share_of_right_links(corpus, monkeypatch, looks, expected):
    found = date_precision(model_attending_to(corpus, looks, monkeypatch), corpus)
    assert found is None if expected is None else found == pytest.approx(expected)
