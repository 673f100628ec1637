"""Random lines, random batches, each strategy: one result a line, whatever the batch."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.decoding.batches import decode_all
from regard.decoding.scoring import forced_scores
from regard.decoding.settings import GenerationSettings
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig

EXACT_PLAIN = torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
VOCAB = 60
STRATEGIES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 3},
    "beam, score by length": {"beam_size": 3, "length_penalty": "power", "alpha": 1.2},
    "beam that ends early": {"beam_size": 3, "early_stopping": True, "length_penalty": "none"},
    "beam of groups": {"beam_size": 4, "n_best": 4, "beam_groups": 2, "diversity": 0.7},
    "beam without repetition": {"beam_size": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    "least length": {"beam_size": 2, "min_length": 4},
    "samples": {"sample": True, "n_best": 3, "seed": 5},
    "samples of few": {"sample": True, "top_k": 7, "temperature": 1.4, "seed": 1},
    "samples of a nucleus": {"sample": True, "top_p": 0.8, "n_best": 2},
}
FIRST = ("beam", "samples")
lengths = st.lists(st.integers(0, 20) | st.sampled_from([0, 1, 15, 16, 17, 90]), max_size=7)


# Without kernels most searches nightly: they choose among the same numbers.
each_strategy = pytest.mark.parametrize(
    ("exact", "strategy"),
    [
        pytest.param(
            numbers, each, marks=pytest.mark.nightly if numbers == "plain" and each not in FIRST else ()
        )
        for numbers in ("kernels", "plain")
        for each in STRATEGIES
    ],
    indirect=["exact"],
)


@pytest.fixture(scope="module")
def exact(request):
    """With the C kernels, and without; True if a line then has the same bits in any batch."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(kernels, "available", lambda: False)
        elif not kernels.available():
            pytest.skip("no C compiler")
        yield request.param == "kernels" or EXACT_PLAIN


@pytest.fixture(scope="module")
def model(exact):
    table = {"d_model": 32, "num_heads": 4, "d_ff": 48, "num_encoder_layers": 1, "num_decoder_layers": 2}
    made = build_model(
        EncoderDecoderConfig.from_table(table, src_vocab_size=VOCAB, tgt_vocab_size=VOCAB), seed=2
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter *= 1.5  # so that it has opinions
    return made


def lines_of(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


@each_strategy
@settings(max_examples=3, deadline=None)
@given(lengths=lengths, seed=st.integers(0, 99), budget=st.sampled_from([1, 33, 160, 4096]))
@example(lengths=[0, 300, 0], seed=0, budget=64)
def test_each_line_has_its_result_and_no_company_changes_it(exact, model, strategy, lengths, seed, budget):
    search = GenerationSettings(max_length=9, **STRATEGIES[strategy]).strategy()
    lines = lines_of(lengths, seed)
    together = decode_all(search, model, lines, batch_tokens=budget)
    assert len(together) == len(lines)
    for index, (line, found) in enumerate(zip(lines, together, strict=True)):
        assert 1 <= len(found) <= search.n_best
        assert all(not {0, 2, 3} & set(each.ids) for each in found), "marks are not part of an answer"
        if "sample" not in STRATEGIES[strategy]:  # these come as they were drawn
            assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        [alone] = decode_all(search, model, [line], first_index=index)
        for ours, theirs in zip(found, alone, strict=True):
            assert ours.ids == theirs.ids
            assert ours.log_prob == pytest.approx(theirs.log_prob, abs=0 if exact else 1e-4)


@each_strategy
@settings(max_examples=3, deadline=None)
@given(lengths=lengths, seed=st.integers(0, 99))
def test_what_is_found_has_the_score_that_it_is_forced_to(exact, model, strategy, lengths, seed):
    lines = lines_of(lengths, seed)
    search = GenerationSettings(max_length=9, **STRATEGIES[strategy]).strategy()
    found = decode_all(search, model, lines)
    pairs = [(line, each.ids) for line, all_found in zip(lines, found, strict=True) for each in all_found]
    scores = iter(forced_scores(model, pairs))
    for each in (each for all_found in found for each in all_found):
        assert each.token_log_probs == pytest.approx(
            next(scores).token_log_probs[: len(each.token_log_probs)], abs=1e-4
        )
