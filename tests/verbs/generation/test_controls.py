"""Controls are keywords of the Python calls; with each of them a text is answered as if it were alone."""

import inspect
import re

import pytest

from regard.decoding.controls import CONTROLS_BY_NAME, Controls
from regard.errors import ConfigError, FolderError
from regard.verbs.generate import Generator, generate
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.translate import Translator, translate

PROMPTS = ["To be", "", "that is the question, and a long one\n", "Ä", "or not to be: that"]
LINES = ["1 2 3", "", "4", "9 8 7 6 5 4 3 2 1 0", "0 0"]
TEXT = [  # of a model that continues texts
    {"sample": False},
    {"beam_size": 4, "length_penalty": "power", "alpha": 1.0, "early_stopping": True},
    {"beam_size": 4, "beam_groups": 2, "diversity": 1.0},
    {"beam_size": 3, "must_contain": ("whether", "que|not"), "max_new_tokens": 16},
    {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.95, "seed": 3},
    {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2, "temperature": 0.0},
    {"no_repeat_ngram_size": 2, "ban": ("be", "T"), "boost": ("o=2", "w=-1")},
    {"min_new_tokens": 9, "max_new_tokens": 12, "end_ids": (5, 6)},
    {"stop": ("to", "e ")},
    {"prompt_lookup": 4},
    {"mbr": "chrf", "mbr_samples": 6},
]
LINE = [  # of a model that translates
    {"beam_size": 4, "length_penalty": "power", "alpha": 1.0, "early_stopping": True},
    {"beam_size": 4, "beam_groups": 2, "diversity": 1.0},
    {"beam_size": 3, "must_contain": ("7 7", "1|2 2")},
    {"sample": True, "temperature": 0.7, "top_k": 9, "min_p": 0.01, "typical_p": 0.95, "seed": 3},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "no_repeat_source_ngram_size": 1},
    {"min_new_tokens": 4, "max_new_tokens": 6, "ban": ("1", "2 3"), "boost": ("4=2",)},
    {"stop": ("4", "1"), "temperature": 0.0},
    {"prompt_lookup": 4, "sample": True},
    {"sample": True, "mbr": "bleu", "mbr_samples": 6},
]


@pytest.fixture(scope="module")
def model(decoder_folder):
    return decoder_folder("characters")


@pytest.mark.parametrize("given", TEXT, ids=lambda given: " ".join(given))
def test_a_prompt_is_continued_the_same_alone_and_in_a_batch(model, given):
    generator = Generator(model, **given)
    together = list(generator(PROMPTS))
    for each in together:
        [alone] = generator([each.prompt])
        assert alone.continuations == each.continuations


@pytest.mark.parametrize("given", LINE, ids=lambda given: " ".join(given))
def test_a_line_is_translated_the_same_alone_and_in_a_batch(untrained, given):
    translator = Translator(untrained, workers=1, **given)
    together = list(translator(LINES))
    backwards = list(translator(reversed(LINES)))[::-1]
    for line, each, other in zip(LINES, together, backwards, strict=True):
        [alone] = translator([line])
        assert alone.candidates == each.candidates == other.candidates


def continuation(model, **given) -> str:
    return Generator(model, **given).one("To be").continuations[0].text


def test_texts_do_what_is_asked(model, untrained):
    long = {"min_new_tokens": 20, "max_new_tokens": 40}
    whole = continuation(model, **long)
    stop = whole[8:11]
    assert continuation(model, **long, stop=(stop,)) == whole[: whole.index(stop)]
    assert len(continuation(model, max_new_tokens=12, min_new_tokens=12)) == 12
    for seed in range(4):
        assert "t" not in continuation(model, ban=("t",), seed=seed)
    said = continuation(model, beam_size=4, must_contain=("whether", "zyx|question"), max_new_tokens=40)
    assert "whether" in said
    assert "question" in said
    banned = translate("1 2 3", model=untrained, ban=("4", "5 6"))
    assert "4" not in banned
    assert "5 6" not in banned
    assert translate("1 2 3", model=untrained, must_contain="8 8 8").count("8 8 8")


def test_a_banned_word_is_in_no_candidate_however_it_is_cut_into_tokens():
    text = "The children play in the garden."
    searches = ({"beam_size": 8, "n_best": 8}, {"sample": True, "n_best": 8, "seed": 1}, {"beam_size": 1})
    for word in ("spielen", "Garten"):
        for given in searches:
            found = translate(text, ban=(word,), split="off", **given)
            texts = [found] if isinstance(found, str) else found
            assert not [each for each in texts if re.search(rf"\b{word}\b", each)]


def test_a_ban_of_what_the_model_cannot_write_is_warned_of_and_changes_nothing(capsys, model, untrained):
    for given in ("\N{SNOWMAN}", "1 \N{SNOWMAN}"):
        assert translate(LINES, model=untrained, ban=(given,)) == translate(LINES, model=untrained)
        assert "the model's vocabulary cannot spell" in capsys.readouterr().err
    assert continuation(model, ban=("\N{SNOWMAN}",)) == continuation(model)


def test_guesses_change_no_text(model, decoder_folder, untrained):
    plain = generate(PROMPTS, model=model, num=2, seed=4)
    assert generate(PROMPTS, model=model, num=2, seed=4, prompt_lookup=5) == plain
    assert generate(PROMPTS, model=model, num=2, seed=4, draft_model=str(model)) == plain
    generator = Generator(model, prompt_lookup=3, seed=4)
    for prompt in PROMPTS:
        assert prompt + "".join(generator.stream(prompt)) == generator.one(prompt).texts[0]
    drawn = translate(LINES, model=untrained, sample=True)
    assert translate(LINES, model=untrained, sample=True, draft_model=str(untrained)) == drawn
    with pytest.raises(FolderError, match="its tokens are not those"):
        Generator(model, draft_model=str(decoder_folder("bytes")))


def test_minimum_risk_reports_the_best_sample_with_its_expected_utility(model):
    found = Generator(model, mbr="chrf", mbr_samples=8, num=3, max_new_tokens=6).one("To be").continuations
    drawn = {each.text for each in Generator(model, num=8, max_new_tokens=6).one("To be").continuations}
    assert {each.text for each in found} <= drawn
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    with pytest.raises(ConfigError, match="mbr_samples = 2 is less than the 3"):
        Generator(model, mbr="chrf", mbr_samples=2, num=3)
    with pytest.raises(ConfigError, match="only a single text can be streamed"):
        Generator(model, mbr="chrf").stream("To be")


def test_log_probabilities_are_reported_token_by_token(model):
    [found] = Generator(model, seed=2).one("To be").continuations
    assert len(found.token_log_probs) == len(found.tokens) + 1
    assert sum(found.token_log_probs) == pytest.approx(found.log_prob, abs=1e-5)


def test_a_call_shows_each_control_and_takes_it_or_all_together(model):
    shown = inspect.signature(generate).parameters
    assert set(CONTROLS_BY_NAME) <= set(shown)
    assert "controls" not in shown
    given = {"seed": 3, "max_new_tokens": 5, "stop": "e"}
    alone = generate("To", model=model, **given)
    together = generate("To", model=model, controls=Controls(**{**given, "stop": ("e",)}))
    assert alone == together
    assert generate("To", model=model, runtime=DecodingRuntime(threads=1), **given) == alone
    with pytest.raises(TypeError, match="temprature"):
        generate("To", model=model, temprature=0.3)
    with pytest.raises(TypeError, match="both controls and seed"):
        generate("To", model=model, controls=Controls(), seed=3)
