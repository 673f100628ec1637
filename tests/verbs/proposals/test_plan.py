"""The proposed settings grow with the corpus, fit the time, and equal the published recipes."""

import dataclasses
import tomllib
from pathlib import Path

import pytest
import torch

from regard.data.corpus import CorpusSettings, LinePolicy, Pair, open_corpus
from regard.models.build import count_config_parameters
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.recipe import read_toml
from regard.verbs.proposals.corpus_survey import survey
from regard.verbs.proposals.plan import SIZES, drafts, is_trained_enough, propose
from regard.verbs.proposals.run_plan import MIN_STEPS, fitted_to_time
from regard.verbs.proposals.template import recipe_text
from regard.verbs.proposals.training_speed import Speed

RECIPES = Path(__file__).parents[3] / "recipes"
SPEED = Speed(
    target_tokens_per_second=4e3, target_tokens_per_update=3.5e3, target_tokens_per_pair=15.0, threads=1
)


@pytest.mark.parametrize("pairs", [20, 4999, 29_000, 160_000, 30_000_000])
def test_the_model_grows_with_the_corpus_and_can_be_built(pairs):
    fits, larger = (next(drafts(count, 1.0)) for count in (pairs, 4 * pairs))
    config = EncoderDecoderConfig.from_table(fits.model, src_vocab_size=100, tgt_vocab_size=100)
    assert config.norm_position == "pre"
    assert larger.parameters >= fits.parameters


@pytest.mark.parametrize("shared_letters", [0.0, 1.0])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.pairs)
def test_parameters_are_those_of_the_model(size, shared_letters):
    draft = next(drafts(int(min(size.pairs, 1e9)), shared_letters, characters=3000))
    assert draft.size is size
    vocab = {"src_vocab_size": draft.vocab_size, "tgt_vocab_size": draft.vocab_size}
    true = count_config_parameters(EncoderDecoderConfig.from_table(draft.model, **vocab))
    assert draft.parameters == pytest.approx(true, rel=0.02)


def test_less_time_means_fewer_updates_and_never_more_minutes_than_given():
    draft = next(drafts(29_000, 1.0))
    runs = [fitted_to_time(draft, SPEED, 29_000, minutes) for minutes in (5.0, 10.0, 60.0)]
    assert [run.max_steps for run in runs] == sorted(run.max_steps for run in runs)
    assert all(run.minutes <= minutes for run, minutes in zip(runs, (5, 10, 60), strict=True))


def test_a_small_corpus_is_not_repeated_without_end():
    draft = next(drafts(1000, 1.0))
    run = fitted_to_time(draft, SPEED, 1000, minutes=600.0)
    assert run.epochs <= draft.size.epochs
    assert run.minutes < 600


def test_even_a_minute_gives_a_run():
    run = fitted_to_time(next(drafts(10**6, 1.0)), SPEED, 10**6, minutes=0.01)
    assert run.max_steps == MIN_STEPS


def test_a_short_time_gives_a_smaller_model():
    large, *smaller = drafts(10**6, 1.0)
    assert not is_trained_enough(fitted_to_time(large, SPEED, 10**6, 1.0), SPEED)
    assert is_trained_enough(fitted_to_time(large, SPEED, 10**6, 600.0), SPEED)
    assert [each.parameters for each in smaller] == sorted(
        (each.parameters for each in smaller), reverse=True
    )


def test_a_script_of_many_characters_gets_a_larger_vocabulary():
    assert next(drafts(5000, 0.0, characters=3000)).vocab_size == 6000
    assert next(drafts(5000, 0.0, characters=80)).vocab_size == next(drafts(5000, 0.0)).vocab_size


def test_the_speed_is_measured_on_the_corpus_and_the_run_fits_the_time(monkeypatch):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.2)
    sample = [Pair(source=f"a b c {i % 40}", target=f"d e f {i % 40} g", line=i + 1) for i in range(400)]
    before = torch.get_num_threads(), torch.get_rng_state()
    run = propose(
        sample,
        pairs=400,
        shared_letters=0.0,
        characters=20,
        minutes=0.5,
        device=torch.device("cpu"),
        threads=1,
    )
    assert run.minutes <= 0.5 or run.max_steps == MIN_STEPS
    assert not run.joint
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_the_published_recipe_equals_a_new_recipe():
    """Except for its data, how often it validates and reports, and its expected scores."""
    published, _ = read_toml(RECIPES / "multi30k-raw-en-de.toml")
    steps = published["training"]["max_steps"]
    proposal = dataclasses.replace(next(drafts(29_000, 1.0)), epochs=46.0, max_steps=steps)
    corpus = survey(open_corpus(CorpusSettings(synthetic="copy", size=50, length=6), LinePolicy(), Path()))
    new = tomllib.loads(recipe_text("r", "", "", proposal, corpus))
    assert {"tied": "all", **published["model"]} == new["model"]
    assert published["tokenizer"].items() <= new["tokenizer"].items()
    assert published["batches"].items() <= new["batches"].items()
    assert published["decoding"] == new["decoding"]
    looks = {"report_every", "validate_every", "save_every"}
    for name, value in published["training"].items():
        assert name in looks or new["training"][name] == value, name


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-de-en-transformer"])
def test_recipes_measured_before_have_the_model_of_the_proposal(name):
    """Their batches are larger, as they were when they were measured."""
    table, _ = read_toml(RECIPES / f"{name}.toml")
    proposal = next(drafts(29_000, 1.0))
    assert {"tied": "all", **table["model"], "dropout": proposal.dropout} == proposal.model
    assert table["tokenizer"]["vocab_size"] == proposal.vocab_size
