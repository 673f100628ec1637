"""The same text and scores as `transformers`, where it still has the control. Its model is our stepper."""

import pytest
import torch

from regard.decoding.hypothesis import Power, Request
from regard.decoding.penalties import PhraseBoost, RepetitionPenalty
from regard.decoding.rules import (
    BannedPhrases,
    GeneratedTokens,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
)
from regard.decoding.sampling import MinP, Temperature, TopK, TopP, Typical
from regard.decoding.search import BeamSearch, GreedySearch
from tests.nightly import each_once

transformers = pytest.importorskip("transformers")
processors = pytest.importorskip("transformers.generation.logits_process")
VOCAB, BOS, EOS, NEW = 30, 2, 3, 12


class Theirs:
    """A stepper of a transformers model: each step reads the whole text again."""

    def __init__(self, model):
        self.model = model

    def start(self, src_ids, src_lengths):
        self.said = src_ids

    def logits(self, ids):
        self.said = torch.cat((self.said, ids[:, None]), dim=1)
        return self.model(self.said).logits[:, -1].float()

    def step(self, ids):
        return self.logits(ids).log_softmax(dim=-1)

    def select(self, rows):
        self.said = self.said[rows]


@pytest.fixture(scope="module")
def gpt2():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=BOS, eos_token_id=EOS,
        pad_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.15 * torch.randn_like(parameter)
        bias = model.transformer.ln_f.bias
        model.lm_head.weight[EOS] = 3 * bias / bias.square().sum()  # or hardly any text would end
    return model


PROMPTS = [[7, 8, 9, 8], [5, 6, 5, 6], [20, 21, 22, 4], [11, 12, 11, 12]]


def ours(search, model):
    stepper = Theirs(model)
    stepper.start(torch.tensor([prompt[:-1] for prompt in PROMPTS]), torch.full((4,), 3))
    requests = [
        Request(src_len=0, prefix=tuple(each), begun=4, uncounted=4, index=index, most=4 + NEW)
        for index, each in enumerate(PROMPTS)
    ]
    with torch.no_grad():
        return search(stepper, requests)


def theirs(model, **controls):
    ids = torch.tensor(PROMPTS)
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, return_dict_in_generate=True,
        output_scores=True, **controls,
    )  # fmt: skip
    return [row[4:] for row in found.sequences.tolist()], getattr(found, "sequences_scores", None)


def up_to_the_end(ids):
    return ids[: ids.index(EOS)] if EOS in ids else ids


LIMITS = LengthLimits(offset=2**40, most=2**40)
CASES = {
    "plain": ({}, ()),
    "repetition": ({"repetition_penalty": 1.4}, (RepetitionPenalty(penalty=1.4),)),
    "n-grams": ({"no_repeat_ngram_size": 2}, (NoRepeatNGrams(size=2),)),
    "least": ({"min_new_tokens": 6}, (MinimumLength(length=6, eos_id=EOS),)),
    "words": ({"bad_words_ids": [[7, 8], [9]]}, (BannedPhrases(phrases=((7, 8), (9,))),)),
    "bias": ({"sequence_bias": [[[8], 0.7]]}, (PhraseBoost(phrases=((8,),), strength=0.7),)),
}


@pytest.mark.parametrize("case", CASES)
def test_greedy_says_the_same(gpt2, case):
    controls, rules = CASES[case]
    expected, _ = theirs(gpt2, do_sample=False, **controls)
    found = ours(GreedySearch(limits=LIMITS, rules=rules), gpt2)
    assert [each[0].ids[4:] for each in found] == [up_to_the_end(ids) for ids in expected]


@pytest.mark.parametrize(("case", "alpha", "early"), each_once(list(CASES), [0.0, 1.0], [True, False]))
def test_a_beam_that_stops_early_finds_the_same_with_the_same_scores(gpt2, case, alpha, early):
    """At the greatest length they score what has not ended, and we end it: what ended is compared."""
    controls, rules = CASES[case]
    expected, scores = theirs(
        gpt2, num_beams=4, num_return_sequences=4, early_stopping=early, length_penalty=alpha, **controls
    )
    search = BeamSearch(
        size=4, n_best=4, early_stopping=early, heuristic_stopping=not early, limits=LIMITS, rules=rules,
        length_penalty=Power(alpha=alpha),
    )  # fmt: skip
    compared = 0
    for place, hypotheses in enumerate(ours(search, gpt2)):
        four = expected[4 * place : 4 * place + 4]
        if not all(EOS in ids for ids in four):
            continue
        compared += 1
        assert [each.ids[4:] for each in hypotheses] == [up_to_the_end(ids) for ids in four]
        assert [each.score for each in hypotheses] == pytest.approx(
            scores[4 * place : 4 * place + 4].tolist(), abs=1e-4
        )
    assert compared, "else nothing was compared"


HISTORY = [[5, 6, 7, 5, 6], [8, 8, 9, 8, 8], [4, 9, 4, 9, 4]]
SOURCE = [[6, 5, 9, 10], [8, 4, 8, 11], [9, 4, 20, 4]]
SAME = {
    "repetition": (
        lambda: processors.RepetitionPenaltyLogitsProcessor(1.3), RepetitionPenalty(penalty=1.3)
    ),
    "n-grams": (lambda: processors.NoRepeatNGramLogitsProcessor(2), NoRepeatNGrams(size=2)),
    "source": (
        lambda: processors.EncoderNoRepeatNGramLogitsProcessor(2, torch.tensor(SOURCE)),
        NoRepeatSourceNGrams(size=2),
    ),
    "words": (
        lambda: processors.NoBadWordsLogitsProcessor([[6, 7], [8]], EOS),
        BannedPhrases(phrases=((6, 7), (8,))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_rules_weigh_and_forbid_the_same(name):
    make, rule = SAME[name]
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(3))
    found = logits.clone()
    sources = torch.tensor(SOURCE).numpy()
    rule(
        found,
        GeneratedTokens(torch.tensor(HISTORY), sources=lambda: sources, sentence=torch.arange(3).numpy()),
    )
    torch.testing.assert_close(found, make()(torch.tensor(HISTORY), logits.clone()))


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda: processors.TemperatureLogitsWarper(0.7), Temperature(temperature=0.7)),
        (lambda: processors.TopKLogitsWarper(5), TopK(k=5)),
        (lambda: processors.TopPLogitsWarper(0.8), TopP(p=0.8)),
        (lambda: processors.MinPLogitsWarper(0.2), MinP(p=0.2)),
        (lambda: processors.TypicalLogitsWarper(0.6), Typical(p=0.6)),
    ],
    ids=["temperature", "top-k", "top-p", "min-p", "typical"],
)
def test_filters_keep_the_same(make, ours):
    for seed in range(20):
        logits = 2 * torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(ours(logits.clone()), make()(torch.tensor(HISTORY), logits.clone()))
