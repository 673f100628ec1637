"""The batch does not matter: with real models, to the bit."""

import itertools
import os
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.catalogue import find_file
from regard.decoding.batches import by_length, decode_all, decode_stream, padded
from regard.decoding.hypothesis import Hypothesis, Wu
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.settings import GenerationSettings
from regard.decoding.step import EnsembleStepper, ModelStepper
from regard.errors import ConfigError, DataError
from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from tests.nightly import each_once

EXACT = kernels.available() or (
    torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
)
VOCAB = 1000
COMMON = {"limits": LengthLimits(ratio=1.0, offset=2, most=10), "rules": (BannedTokens(ids=(0, 2)),)}
SEARCHES = [
    GreedySearch(**COMMON),
    BeamSearch(size=5, length_penalty=Wu(alpha=0.6), n_best=2, **COMMON),
    Sampling(seed=3, n_best=2, **COMMON),
]
SIZES = {
    "small": {"d_model": 32, "num_heads": 4, "d_ff": 48, "num_encoder_layers": 2, "num_decoder_layers": 2},
    "one head": {"d_model": 24, "num_heads": 1, "d_ff": 40, "num_encoder_layers": 1, "num_decoder_layers": 1},
    "shared keys": {
        "d_model": 64, "num_heads": 4, "num_kv_heads": 2, "d_ff": 64, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "positions": "rotary", "norm": "rms", "activation": "swiglu",
        "norm_position": "pre",
    },
    "biased": {"d_model": 32, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2,
               "positions": "t5"},
    "sloped": {"d_model": 32, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2,
               "positions": "alibi"},
    "tiny": {"preset": "tiny"},
}  # fmt: skip
NARROW = {"d_model": 32, "d_embedding": 24}
RECURRENT = {
    "rnn": {"preset": "rnn", **NARROW},
    "bahdanau": {"preset": "bahdanau", **NARROW},
    "luong": {"preset": "luong", **NARROW},
    "concat": {"attention": "concat", "cell": "lstm", **NARROW},
    "dot": {"attention": "dot", "input_feeding": True, **NARROW},
}


def model_of(size: str = "small", seed: int = 1, vocab: int = VOCAB):
    """A model with opinions: fresh weights say the same everywhere."""
    kind, table = (
        (RecurrentConfig, RECURRENT[size]) if size in RECURRENT else (EncoderDecoderConfig, SIZES[size])
    )
    model = build_model(kind.from_table(table, src_vocab_size=vocab, tgt_vocab_size=vocab), seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1.5
    return model


def sentences(lengths, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """To the bit; on machines other than the measured ones, hypotheses as good within 1e-4 per token."""
    if EXACT:
        assert found == expected
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            mean, other_mean = (each.log_prob / len(each.token_log_probs) for each in (one, other))
            assert one.ids == other.ids or mean == pytest.approx(other_mean, abs=1e-4)


SOURCES = sentences([5, 0, 200, 12, 1, 15, 16, 17, 9, 33, 9, 8, 8])


@pytest.mark.parametrize(
    ("size", "search"),
    [("small", SEARCHES[0]), ("small", SEARCHES[2]), *((size, SEARCHES[1]) for size in SIZES)],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_hypotheses_and_scores_are_the_same_to_the_bit_in_every_batch(size, search):
    model = model_of(size)
    found = [decode_all(search, model, SOURCES, batch_tokens=budget) for budget in (64, 700, 8192)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
    assert len({str(hypotheses) for hypotheses in found[0]}) == len(SOURCES)  # and no two alike


@pytest.mark.parametrize(("size", "search"), each_once(list(RECURRENT), SEARCHES[:2]))
def test_recurrent_models_translate_the_same_alone_and_in_any_batch(size, search):
    model = model_of(size)
    found = [decode_all(search, model, SOURCES, batch_tokens=budget) for budget in (16, 700, 8192)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
    for index in (0, 2, 5):
        assert_same(decode_all(search, model, [SOURCES[index]], first_index=index), [found[0][index]])


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_a_sentence_is_translated_the_same_alone_and_in_a_batch(search):
    model = model_of()
    together = decode_all(search, model, SOURCES)
    for index, source in enumerate(SOURCES):
        assert_same(decode_all(search, model, [source], first_index=index), [together[index]])


@pytest.mark.skipif(not Path(os.environ.get("REGARD_DATA", "/nowhere")).is_dir(), reason="needs REGARD_DATA")
@pytest.mark.parametrize("beam_size", [1, 5])
def test_captions_an_empty_and_a_long_line_are_translated_the_same_with_every_budget(beam_size):
    lines = find_file("multi30k_tok:test_2016_flickr.en").read_text("utf-8").splitlines()
    lines = [*lines[:10], "", *lines[10:20], " ".join(" ".join(lines).split()[:200])]
    words = {word: number for number, word in enumerate(dict.fromkeys(" ".join(lines).split()), start=4)}
    sources = [[words[word] for word in line.split()] for line in lines]
    search = GenerationSettings(beam_size=beam_size, max_length=12).strategy()
    model = model_of("tiny")
    found = [decode_all(search, model, sources, batch_tokens=budget) for budget in (64, 700, 8192)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


def test_an_ensemble_is_decoded_and_the_batch_does_not_matter_to_it_either():
    models = [model_of(seed=1), model_of(seed=2)]
    sources = SOURCES[3:9]
    ours = decode_all(SEARCHES[1], models, sources)
    assert_same(decode_all(SEARCHES[1], models, sources, batch_tokens=32), ours)
    singles = [decode_all(SEARCHES[1], model, sources) for model in models]
    assert ours not in singles
    twice = decode_all(SEARCHES[1], [models[0]] * 2, sources)
    assert [each[0].ids for each in twice] == [each[0].ids for each in singles[0]]


def test_an_ensemble_gives_the_mean_of_the_probabilities():
    steppers = [ModelStepper(model_of(seed=seed).eval()) for seed in (1, 2, 3)]
    ids, lengths = padded([[*source, 3] for source in SOURCES[:8]], 0)
    ensemble = EnsembleStepper(steppers)
    with torch.no_grad():
        ensemble.start(ids, lengths)
        ours = ensemble.step(torch.full((8,), 2))
        for stepper in steppers:
            stepper.start(ids, lengths)
        mean = torch.stack([stepper.step(torch.full((8,), 2)).exp() for stepper in steppers]).mean(dim=0)
    torch.testing.assert_close(ours.exp(), mean)


def test_an_ensemble_of_other_vocabularies_is_refused():
    with pytest.raises(ConfigError, match="1000, 900 tokens"):
        decode_all(SEARCHES[0], [model_of(), model_of(vocab=900)], [[5, 6]])
    with pytest.raises(ConfigError, match="at least one"):
        decode_all(SEARCHES[0], [], [[5, 6]])


def test_learned_positions_are_enough_or_the_sentence_is_refused():
    config = EncoderDecoderConfig.from_table(
        SIZES["small"] | {"positions": "learned", "max_positions": 25},
        src_vocab_size=VOCAB,
        tgt_vocab_size=VOCAB,
    )
    search = GreedySearch(rules=(BannedTokens(ids=(0, 2, 3)),))  # never ends of itself
    found = decode_all(search, build_model(config, 1), [*sentences([24, 3])], batch_tokens=64)
    assert [len(hypotheses[0].ids) for hypotheses in found] == [24, 24]
    with pytest.raises(DataError, match="sentence 2 has 25 tokens"):
        decode_all(search, build_model(config, 1), sentences([3, 25]))
    with pytest.raises(DataError, match="a prefix of 25"):
        decode_all(search, build_model(config, 1), [[4]], prefixes=[[5] * 25])


def test_a_prefix_is_kept_in_its_place():
    model = model_of()
    prefixes = [[10 + index] * (index % 4) for index in range(len(SOURCES))]
    found = decode_all(SEARCHES[1], model, SOURCES, prefixes=prefixes)
    assert [each[0].ids[: len(prefix)] for each, prefix in zip(found, prefixes, strict=True)] == prefixes
    assert_same(decode_all(SEARCHES[1], model, SOURCES, prefixes=prefixes, batch_tokens=64), found)


def test_prefixes_for_other_sources_and_an_empty_window_are_refused():
    model = model_of()
    with pytest.raises(ValueError, match="shorter"):
        decode_all(SEARCHES[0], model, [[5, 6]], prefixes=[])
    with pytest.raises(ConfigError, match="window is 0"):
        next(decode_stream(SEARCHES[0], model, [[5, 6]], window=0))


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([4, 5], "source 1 is 4, not a list"),
        ([[4], "a b"], "source 2 is 'a b', not a list"),
        ([torch.zeros(1, 2, dtype=torch.int64)], "source 1 is .*, not a list"),
        ([[4], [5, 4.5]], "source 2 has 4.5, which is not an id"),
        ([[True]], "source 1 has True, which is not an id"),
    ],
    ids=str,
)
def test_what_is_no_list_of_ids_is_refused(monkeypatch, sources, message):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse some first
    with pytest.raises(DataError, match=message):
        decode_all(SEARCHES[0], model_of(), sources)


@pytest.mark.parametrize(
    ("of_search", "eos_id", "named"),
    [
        ({"eos_id": VOCAB}, 3, f"eos_id of the search = {VOCAB} is not in the vocabulary"),
        ({"bos_id": VOCAB}, 3, f"bos_id of the search = {VOCAB} is not in the vocabulary"),
        ({}, VOCAB, f"eos_id = {VOCAB} is not in the vocabulary, whose src_vocab_size"),
    ],
    ids=str,
)
def test_special_tokens_are_in_the_vocabulary(of_search, eos_id, named):
    last = {"bos_id": VOCAB - 1, "eos_id": VOCAB - 1}
    assert decode_all(GreedySearch(**COMMON, **last), model_of(), [[4, 5]], eos_id=VOCAB - 1)
    with pytest.raises(ConfigError, match=named):
        decode_all(GreedySearch(**COMMON, **of_search), model_of(), [[4, 5]], eos_id=eos_id)


def test_no_sources_give_no_hypotheses():
    assert decode_all(SEARCHES[0], model_of(), []) == []


@pytest.mark.parametrize(("window", "read"), [(4, 8), (1, 6)])
def test_a_stream_is_decoded_window_by_window_and_gives_the_same(window, read):
    model = model_of()
    taken = []
    endless = (taken.append(index) or SOURCES[index % len(SOURCES)] for index in itertools.count())
    found = list(itertools.islice(decode_stream(SEARCHES[2], model, endless, window=window), 6))
    assert len(taken) == read
    assert_same(found, decode_all(SEARCHES[2], model, SOURCES)[:6])


def test_sources_of_a_stream_are_counted_over_all_windows():
    with pytest.raises(DataError, match="sentence 6 has the id"):
        list(decode_stream(SEARCHES[0], model_of(), [*SOURCES[:5], [VOCAB]], window=4))


@pytest.mark.parametrize("training", [True, False])
def test_decoding_is_without_dropout_and_leaves_the_model_as_it_was(training):
    model = model_of().train(training)
    assert decode_all(SEARCHES[0], model, SOURCES) == decode_all(SEARCHES[0], model, SOURCES)
    assert model.training == training
    assert all(parameter.grad is None for parameter in model.parameters())


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 1000))
def test_batches_hold_each_place_once_within_the_budget(lengths, budget):
    batches = list(by_length(lengths, budget))
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget


def test_lengths_are_padded_to_a_multiple():
    ids, lengths = padded([[5] * 17, [], [6]], pad_id=9)
    assert lengths.tolist() == [17, 0, 1]
    assert ids.shape == (3, 32)
    assert ids.sum() == 5 * 17 + 6 + 9 * (3 * 32 - 18)
    assert padded([[5]], pad_id=9, least=33)[0].shape == (1, 48)


def test_each_source_is_reported_once_when_it_is_decoded_and_the_answers_are_the_same():
    model, reported = model_of(), []
    found = decode_all(SEARCHES[0], model, SOURCES[:4], batch_tokens=1, decoded=reported.append)
    assert found == decode_all(SEARCHES[0], model, SOURCES[:4])
    assert sorted(index for batch in reported for index in batch) == [0, 1, 2, 3]
    assert len(reported) == 4


@pytest.mark.parametrize("more", [1, -1])
def test_a_search_with_another_number_of_answers_is_an_error(more):
    def miscounting(stepper, requests):
        return [[]] * (len(requests) + more)

    with pytest.raises(ValueError, match="argument 2 is"):
        decode_all(miscounting, model_of(), [[5, 6], [7]])
