"""Forced scores agree with the search, with the model read at once, and with one another in any batch."""

import math

import pytest
import torch

from regard.decoding.batches import decode_all
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.scoring import forced_scores, next_token_log_probs
from regard.decoding.search import BeamSearch
from regard.errors import ConfigError, DataError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

SIZE = {"d_model": 32, "num_heads": 4, "d_ff": 48, "num_encoder_layers": 2, "num_decoder_layers": 2}


def model_of(seed: int = 1):
    return build_model(EncoderDecoderConfig.from_table(SIZE, src_vocab_size=200, tgt_vocab_size=200), seed)


def pairs() -> list[tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(0)
    lengths = [(3, 5), (0, 0), (40, 1), (1, 60), (16, 15), (16, 16), (7, 0), (5, 5)]
    return [
        tuple(torch.randint(4, 200, (length,), generator=generator).tolist() for length in both)
        for both in lengths
    ]


def test_a_score_is_the_sum_of_the_log_probabilities_of_target_and_end():
    model = model_of().eval()
    for (source, target), score in zip(pairs(), forced_scores(model, pairs()), strict=True):
        with torch.no_grad():
            logits = model(
                torch.tensor([[*source, 3]]), torch.tensor([len(source) + 1]), torch.tensor([[2, *target]])
            )
        each = logits[0].log_softmax(dim=-1)[torch.arange(len(target) + 1), [*target, 3]]
        assert score.num_tokens == len(target) + 1 == len(score.token_log_probs)
        assert score.token_log_probs == pytest.approx(each.tolist(), abs=1e-4)
        assert score.log_prob == pytest.approx(each.sum().item(), abs=1e-4 * score.num_tokens)


def test_scores_do_not_depend_on_the_batch():
    model = model_of()
    together = forced_scores(model, pairs())
    for budget in (1, 64, 200):
        for one, other in zip(forced_scores(model, pairs(), batch_tokens=budget), together, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_a_search_gives_the_score_that_its_translation_is_forced_to():
    models = [model_of(1), model_of(2)]
    sources = [source for source, _ in pairs()]
    found = decode_all(
        BeamSearch(rules=(BannedTokens(ids=(0, 2)),), limits=LengthLimits(ratio=0.0, offset=8)),
        models,
        sources,
    )
    forced = forced_scores(
        models, [(source, each[0].ids) for source, each in zip(sources, found, strict=True)]
    )
    for (hypothesis, *_), score in zip(found, forced, strict=True):
        assert hypothesis.log_prob == pytest.approx(score.log_prob, abs=1e-4 * score.num_tokens)


def test_an_ensemble_scores_with_the_mean_of_the_probabilities():
    scores = [forced_scores(model_of(seed), pairs()) for seed in (1, 2)]
    both = forced_scores([model_of(1), model_of(2)], pairs())
    for one, other, mean in zip(*scores, both, strict=True):
        for a, b, c in zip(one.token_log_probs, other.token_log_probs, mean.token_log_probs, strict=True):
            assert math.exp(c) == pytest.approx((math.exp(a) + math.exp(b)) / 2, rel=1e-4)


def test_a_pair_of_as_many_tokens_as_positions_is_scored_and_a_longer_one_is_named():
    """The end of each side counts, the beginning of the target does not."""
    learned = {"positions": "learned", "max_positions": 6, **SIZE}
    model = build_model(EncoderDecoderConfig.from_table(learned, src_vocab_size=200, tgt_vocab_size=200), 1)
    fitting = ([4] * 5, [5] * 5)
    [score] = forced_scores(model, [fitting])
    assert score.num_tokens == 6
    for long in (([4] * 6, [5]), ([4], [5] * 6)):
        with pytest.raises(DataError, match=r"pair 2 has 7 tokens .* only 6 positions") as refusal:
            forced_scores(model, [fitting, long])
        assert refusal.value.hint


def test_no_pairs_give_no_scores_and_no_models_are_refused():
    assert forced_scores(model_of(), []) == []
    with pytest.raises(ConfigError, match="at least one"):
        forced_scores([], pairs())


def test_the_next_tokens_of_a_sequence_have_the_same_log_probabilities_in_any_batch():
    config = DecoderOnlyConfig(
        vocab_size=11, d_model=16, num_heads=2, d_ff=24, num_layers=2, max_positions=40
    )
    model = build_model(config, seed=2)
    generator = torch.Generator().manual_seed(1)
    sequences = [torch.randint(11, (length,), generator=generator).tolist() for length in (2, 41, 9, 17)]
    found = next_token_log_probs(model, sequences)
    model.eval()
    for ids, log_probs in zip(sequences, found, strict=True):
        expected = model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        assert log_probs == pytest.approx(expected.tolist(), abs=1e-5)
    small = next_token_log_probs(model, sequences, batch_tokens=1)
    assert [each for row in small for each in row] == pytest.approx([each for row in found for each in row])
    assert next_token_log_probs(model, []) == []


@pytest.mark.parametrize("name", ["bos_id", "eos_id"])
def test_a_special_token_that_is_no_token_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} = -1 is not the id of a token"):
        forced_scores(model_of(), pairs(), **{name: -1})
