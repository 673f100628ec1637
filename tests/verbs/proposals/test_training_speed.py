"""The speed that a proposal is made by is that of the trainer's own updates."""

import pytest
import torch

from regard.data.corpus import Pair
from regard.data.loader import Loader, LoaderSettings
from regard.data.memory_examples import SequencePairs
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.gradients import Gradients
from regard.training.settings import TrainingSettings
from regard.verbs.proposals import training_speed

TABLE = {"d_model": 16, "num_heads": 2, "d_ff": 32}
TABLE |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
PAIRS = [Pair(source=f"a b c {i % 40}", target=f"d e f {i % 40} g", line=i + 1) for i in range(200)]


@pytest.fixture
def measured(monkeypatch):
    """A measurement of a few updates; the `Gradients` that it made."""
    made = []

    class Seen(Gradients):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(training_speed, "Gradients", Seen)
    monkeypatch.setattr(training_speed, "TIMED_SECONDS", 0.05)
    tokenizers = train_tokenizers(PAIRS, TokenizerSettings(kind="characters", vocab_size=60))
    model = build_model(EncoderDecoderConfig.from_table(TABLE, src_vocab_size=60, tgt_vocab_size=60), seed=1)
    return training_speed.measure_speed(model, tokenizers, 200, PAIRS, torch.device("cpu"), 1), made


def test_updates_are_those_of_the_trainer_in_its_precision(measured):
    _, [gradients] = measured
    assert gradients.precision == TrainingSettings().precision  # "auto": bfloat16 where a GPU has it


def test_a_pair_and_an_update_have_as_many_tokens_as_the_corpus_has(measured):
    found, _ = measured
    tokens = sum(len(pair.target) + 1 for pair in PAIRS) / len(PAIRS)  # characters and the end
    assert found.target_tokens_per_pair == pytest.approx(tokens)
    assert found.target_tokens_per_pair < found.target_tokens_per_update <= 200
    assert found.target_tokens_per_second > 0


@pytest.mark.parametrize("long_side", ["source", "target"])
def test_an_epoch_has_as_many_updates_as_the_trainer_counts(long_side):
    other = "target" if long_side == "source" else "source"
    pairs = [
        Pair(**{long_side: "abc" * (2 + i % 7), other: "ab" * (1 + i % 5)}, line=i + 1) for i in range(300)
    ]
    tokenizers = train_tokenizers(pairs, TokenizerSettings(kind="characters", vocab_size=60))
    ids = [tokenizers.source.encode_batch([each.source for each in pairs])]
    ids.append(tokenizers.target.encode_batch([each.target for each in pairs]))
    loader = Loader(SequencePairs(*ids), LoaderSettings(batch_tokens=150), seed=1)
    assert len(training_speed._batches(pairs, tokenizers, 150)) == loader.batches_in_epoch(0)
