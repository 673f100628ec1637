"""Prompts -> texts: independent of the batch, and streamed in whole characters."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.decoding.phrases import up_to
from regard.errors import ConfigError, DataError, FolderError
from regard.verbs.generate import Generator, generate, generate_file
from regard.verbs.generation.continuations import output_lines
from regard.verbs.generation.text_parts import before_stop, in_characters
from tests.nightly import each_once, nightly_but

KINDS = ["characters", "bytes", "bytebpe", "bpe", "unigram", "words", "wordpiece"]
PROMPTS = ["To be", "", "that is the question, and a long one\n", "Ä", "東京 "]


@pytest.fixture(scope="module", params=KINDS)
def model(request, decoder_folder):
    return decoder_folder(request.param)


@pytest.fixture(scope="module")
def plain(decoder_folder):
    return decoder_folder("characters")


@pytest.mark.parametrize("model", nightly_but(KINDS, "characters", "bytebpe", "unigram"), indirect=True)
def test_a_text_begins_with_its_prompt_and_several_give_several(model):
    one = generate("To be", model=model)
    assert one.startswith("To be")
    assert len(one) > len("To be")
    assert generate(PROMPTS, model=model)[0] == one
    several = generate(["To be", ""], model=model, num=3)
    assert [len(texts) for texts in several] == [3, 3]
    assert several[0][0] == one
    assert len({*several[0]}) > 1
    assert generate("To be", model=model, num=3) == several[0]


def test_the_same_seed_says_the_same_and_another_something_else(plain):
    assert generate("To be", model=plain) == generate("To be", model=plain, seed=0)
    texts = {generate("To be", model=plain, seed=seed) for seed in range(5)}
    assert len(texts) > 2


@pytest.mark.parametrize("model", nightly_but(KINDS, "characters", "bytebpe", "unigram"), indirect=True)
def test_an_image_s_class_does_not_depend_on_its_batch(model):
    generator = Generator(model, num=2)
    together = list(generator(PROMPTS))
    assert [each.line for each in together] == [1, 2, 3, 4, 5]
    for each in together:
        [alone] = generator([each.prompt])
        assert alone.continuations == each.continuations
    backwards = list(generator(reversed(PROMPTS)))
    assert [each.continuations for each in reversed(backwards)] == [each.continuations for each in together]


@pytest.mark.parametrize(
    ("model", "prompt", "settings"),
    each_once(KINDS, PROMPTS, [{}, {"temperature": 0.0}, {"temperature": 2.0, "seed": 4}]),
    indirect=["model"],
)
def test_a_stream_is_the_text_piece_by_piece(model, prompt, settings):
    generator = Generator(model, max_new_tokens=40, **settings)
    pieces = list(generator.stream(prompt))
    assert all(pieces)
    [whole] = generator([prompt])
    assert prompt + "".join(pieces) == whole.texts[0]
    assert "\ufffd" not in (pieces[-1][-1:] if pieces else "")


@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_characters_come_whole_and_none_is_lost(data, kind):
    """What comes piece by piece is what decoding everything at once gives."""
    text = "Éa ça, 東京 — ’tis\n\n the  end\n"
    tokenizer = TOKENIZERS.setdefault(
        kind, train_tokenizer([text], kind, TokenizerSettings(kind=kind, vocab_size=300))
    )
    before, ids = tokenizer.encode(text[: data.draw(st.integers(0, len(text)))]), tokenizer.encode(text)
    if data.draw(st.booleans()):
        ids = data.draw(st.lists(st.integers(4, tokenizer.vocab_size - 1), max_size=40))
    pieces = list(in_characters(tokenizer, before, ids))
    whole, given = tokenizer.decode([*before, *ids]), tokenizer.decode(before)
    assert given + "".join(pieces) == (whole.rstrip("\ufffd") if len(whole) > len(given) else given)


TOKENIZERS = {}


@given(st.lists(st.text("ab.", max_size=4)), st.lists(st.text("ab.", min_size=1, max_size=3), max_size=3))
def test_pieces_come_up_to_the_first_stop_and_nothing_of_it_is_shown(pieces, stops):
    """However a text is cut into pieces."""
    shown = list(before_stop(iter(pieces), stops))
    so_far = ["".join(pieces[:count]) for count in range(len(pieces) + 1)]
    ended = [text for text in so_far if any(stop in text for stop in stops)]
    assert "".join(shown) == up_to([*ended, so_far[-1]][0], stops)
    assert all(shown)


def test_what_cannot_begin_a_stop_does_not_wait():
    given, came = [], []

    def spoken():
        for piece in ["one", " two", "\n", "three", "\n", "\n", "four"]:
            given.append(piece)
            yield piece

    for piece in before_stop(spoken(), ["\n\n"]):
        came.append((len(given), piece))
    assert came == [(1, "one"), (2, " two"), (4, "\nthree")]


def test_bytes_wait_for_their_character(decoder_folder):
    tokenizer = Generator(decoder_folder("bytes")).tokenizer
    ids = tokenizer.encode("aé東!")
    came = []
    given = []

    def spoken():
        for token in ids:
            given.append(token)
            yield token

    for piece in in_characters(tokenizer, [], spoken()):
        came.append((len(given), piece))
    assert came == [(1, "a"), (3, "é"), (6, "東"), (7, "!")]
    assert list(in_characters(tokenizer, [], ids[:-2])) == ["a", "é"], "half a character is left out"


def test_a_stream_raises_errors_before_its_first_token(plain, decoder_folder):
    for settings in ({"num": 2}, {"beam_size": 3}):
        with pytest.raises(ConfigError, match="only a single text can be streamed") as raised:
            Generator(plain, **settings).stream("To be")
        assert raised.value.hint
    with pytest.raises(DataError, match="prompt 1 is empty"):
        Generator(decoder_folder(decoding={"begin": False})).stream("")


@pytest.mark.parametrize("known", [{"trained_length": 8}, {"positions": "learned", "max_positions": 8}])
def test_a_text_grows_beyond_what_the_model_sees_at_once(decoder_folder, capsys, known):
    short = decoder_folder(decoding={"begin": False}, **known)
    assert len(generate("To be", model=short)) == len("To be") + 24
    assert len(generate("To be", model=short, max_new_tokens=40)) == len("To be") + 40
    assert "".join(Generator(short).stream("To be")) == generate("To be", model=short)[len("To be") :]
    assert capsys.readouterr().err == ""


def test_only_the_end_of_a_longer_prompt_is_read_with_a_warning(decoder_folder, capsys):
    short = decoder_folder(decoding={"begin": False}, trained_length=8)
    first, second = generate(["To be", "or not to be"], model=short, temperature=0.0)
    reported = capsys.readouterr().err
    assert "prompt 2 has 12 tokens, but the model reads at most the last 8" in reported
    assert "prompt 1" not in reported
    assert first.startswith("To be")
    other = generate("xx not to be", model=short, temperature=0.0)
    assert other[len("xx not to be") :] == second[len("or not to be") :], (
        "what it does not see is all the same"
    )


def test_to_see_more_than_was_trained_is_asked_for_and_said(decoder_folder, capsys):
    short, endless = decoder_folder(trained_length=8), decoder_folder()
    given = {"max_new_tokens": 40, "temperature": 0.0}
    whole = generate("To be", model=endless, **given)
    capsys.readouterr()
    for context in (0, 100):
        assert generate("To be", model=short, max_context=context, **given) == whole
        reported = capsys.readouterr().err
        assert f"max_context = {context} is more than the 8 tokens that the model was trained on" in reported
    assert generate("To be", model=short, max_context=8, **given) == generate("To be", model=short, **given)
    assert generate("To be", model=endless, max_context=8, **given) == generate("To be", model=short, **given)
    assert "goes beyond" not in capsys.readouterr().err


def test_more_positions_than_were_learned_are_refused(decoder_folder):
    short = decoder_folder(positions="learned", max_positions=8)
    assert generate("To be", model=short, max_context=0) == generate("To be", model=short)
    with pytest.raises(ConfigError, match=r"max_context = 9, .* has only 8 positions") as raised:
        generate("To be", model=short, max_context=9)
    assert raised.value.hint


def test_positions_that_need_no_learning_have_no_end(plain):
    assert len(generate("To be " * 200, model=plain, max_new_tokens=3, temperature=0.0)) >= 1200


def test_an_empty_prompt_is_the_beginning_of_a_text_that_a_model_has_seen(plain, decoder_folder):
    assert generate("", model=plain)
    without = decoder_folder(decoding={"begin": False})
    with pytest.raises(DataError, match="prompt 1 is empty, but the model was trained on one") as raised:
        generate("", model=without)
    assert raised.value.hint


def test_among_several_prompts_an_empty_one_stays_empty_where_no_text_ever_began(decoder_folder):
    without = decoder_folder(decoding={"begin": False})
    first, empty, last = found = generate(["a", "", "be"], model=without)
    assert (first, last) == (generate("a", model=without), generate("be", model=without)), found
    assert empty == ""
    assert generate(["", "a"], model=without, num=2)[0] == [""]
    [generated] = Generator(without)([""])
    assert output_lines(generated) == "\n"
    assert json.loads(output_lines(generated, as_json=True)) == {"line": 1, "prompt": "", "continuations": []}


def test_no_pair_of_tokens_comes_twice_where_that_is_asked_for(decoder_folder):
    endless = decoder_folder(decoding={"begin": False, "temperature": 0.0, "max_new_tokens": 100})
    [plain] = Generator(endless)(["To be"])
    [varied] = Generator(endless, no_repeat_ngram_size=2)(["To be"])

    def pairs(generated):
        tokens = generated.continuations[0].tokens
        return list(itertools.pairwise(tokens))

    assert len(set(pairs(varied))) == len(pairs(varied))
    assert len(set(pairs(plain))) < len(pairs(plain)), "else the rule forbids nothing here"


def test_characters_that_the_model_has_never_seen_are_reported(plain, capsys):
    generate(["To be", "x!y"], model=plain)
    [line] = capsys.readouterr().err.splitlines()
    assert line == "warning: prompt 2 has 3 tokens unknown to the model"


def test_what_is_given_rules_out_what_was_set(decoder_folder):
    model = decoder_folder(decoding={"top_k": 5, "temperature": 0.7, "max_new_tokens": 11})
    assert Generator(model).settings.top_k == 5
    assert Generator(model, temperature=0.0).settings.top_k == 0
    assert Generator(model, beam_size=2).settings.top_k == 0
    assert Generator(model, top_k=3).settings.temperature == 0.7
    searching = decoder_folder(decoding={"beam_size": 4})
    assert Generator(searching).settings.beam_size == 4
    assert Generator(searching, sample=True, top_p=0.9).settings.beam_size == 0
    with pytest.raises(ConfigError, match=r"top_p = 0\.9 is for sampling, but beam_size = 4 searches"):
        Generator(searching, top_p=0.9)
    greedy = decoder_folder(decoding={"temperature": 0.0})
    assert Generator(greedy, sample=True, top_p=0.9).settings.temperature == 1.0
    with pytest.raises(ConfigError, match="top_k = 2 is for sampling, but temperature = 0"):
        Generator(model, temperature=0.0, top_k=2)
    with pytest.raises(ConfigError, match="greedy search finds one"):
        Generator(model, temperature=0.0, num=2)


def test_a_beam_finds_more_probable_texts_than_greedy_search(plain):
    [greedy] = Generator(plain, temperature=0.0)(["To be"])
    [beam] = Generator(plain, beam_size=8, num=3)(["To be"])
    likelihoods = [each.log_prob for each in beam.continuations]
    assert likelihoods == sorted(likelihoods, reverse=True)
    assert likelihoods[0] >= greedy.continuations[0].log_prob - 1e-4


def test_what_is_printed_is_the_text_or_a_line_of_json(plain):
    [generated] = Generator(plain, num=2)(["To be"])
    first, second = generated.texts
    assert output_lines(generated) == f"{first}\n---\n{second}\n"
    [line] = output_lines(generated, as_json=True).splitlines()
    record = json.loads(line)
    assert record["line"] == 1
    assert [record["prompt"] + each["text"] for each in record["continuations"]] == [first, second]
    assert set(record["continuations"][0]) == {"text", "score", "log_prob", "tokens", "token_log_probs"}


def test_prompts_without_end_are_answered_as_they_come(plain):
    came = Generator(plain).in_chunks(["be"] for _ in itertools.count())
    assert [next(came).line for _ in range(3)] == [1, 2, 3]


def test_a_model_that_cannot_continue_texts_is_refused(untrained, plain):
    with pytest.raises(FolderError, match="not a model that continues texts") as raised:
        generate("1 2", model=untrained)
    assert "translate" in raised.value.hint
    with pytest.raises(FolderError) as raised:
        regard.translate("To be", model=plain)
    assert "regard generate" in raised.value.hint


def test_each_line_of_a_file_is_a_prompt(plain, tmp_path):
    (tmp_path / "prompts.txt").write_text("To be\n\nor not\n")
    found = generate_file(tmp_path / "prompts.txt", model=plain, seed=4)
    assert found == generate(["To be", "", "or not"], model=plain, seed=4)


def test_the_names_are_where_users_look():
    assert regard.generate is generate
    assert regard.Generator is Generator
