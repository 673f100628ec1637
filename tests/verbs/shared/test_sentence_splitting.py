"""A text of several sentences is translated sentence by sentence, each as it would be alone."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.sentences import split_sentences
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import ConfigError
from regard.verbs.generation.candidates import TranslationCandidate, combinations, in_step
from regard.verbs.generation.controls import UNSET
from regard.verbs.generation.translations import output_lines
from regard.verbs.shared.sentence_splitting import Splitter, edges, joined
from regard.verbs.summarize import Summarizer
from regard.verbs.tasks.training_pairs import ShardedPairs
from regard.verbs.translate import Translator, translate

TEXT = "1 2 3?  4 5!\n\n7 8 9 0! 6?"
SENTENCES = ["1 2 3?", "4 5!", "7 8 9 0!", "6?"]
GAPS = ["  ", "\n\n", " "]


def put_together(parts):
    return "".join(itertools.chain.from_iterable(zip(parts, [*GAPS, ""], strict=True)))


def test_a_text_is_its_sentences_in_order_with_what_stood_between_them(untrained):
    alone = [translate(each, model=untrained) for each in SENTENCES]
    assert translate(TEXT, model=untrained) == put_together(alone)
    assert translate([TEXT, "4 5!"], model=untrained) == [put_together(alone), alone[1]]
    assert translate(TEXT, model=untrained, batch_tokens=1) == put_together(alone)


def test_samples_of_a_sentence_are_those_it_has_alone(untrained):
    drawn = {"sample": True, "seed": 4, "n_best": 3, "model": untrained}
    alone = [translate(each, **drawn) for each in SENTENCES]
    assert translate(TEXT, **drawn) == [put_together(each) for each in zip(*alone, strict=True)]


def test_log_probabilities_and_tokens_are_those_of_the_sentences(untrained):
    translator = Translator(untrained, n_best=2)
    [found] = translator.texts([TEXT])
    alone = list(translator.texts(SENTENCES))
    assert [each.source for each in found.sentences] == SENTENCES
    assert [each.candidates for each in found.sentences] == [each.candidates for each in alone]
    best = found.candidates[0]
    assert best.log_prob == pytest.approx(sum(each.candidates[0].log_prob for each in alone))
    assert best.tokens == sum((each.candidates[0].tokens for each in alone), ())
    assert len(found.candidates) == 2
    assert found.candidates[0].score >= found.candidates[1].score
    record = json.loads(output_lines(found, as_json=True))
    assert record["sentences"] == [{"source": each.source, "translation": each.text} for each in alone]
    assert "sentences" not in json.loads(output_lines(alone[0], as_json=True))


def test_lines_are_split_where_they_are_longer_than_the_model_was_trained_on(untrained):
    line, short = "1 2 3! 4 5 6?", "1! 2?"
    apart = " ".join(translate(each, model=untrained) for each in ("1 2 3!", "4 5 6?"))

    def texts(split, above=0):
        loaded = regard.load(untrained)
        loaded = dataclasses.replace(loaded, generation={**loaded.generation, "split_above": above})
        return [each.text for each in Translator(loaded, split=split)([line, short])]

    whole = texts("off")
    assert whole[0] != apart, "so it is seen whether a line is split"
    assert texts("auto") == whole, "how long lines were in training is not known"
    lengths = [
        len(each) for each in Translator(untrained).loaded.tokenizers.source.encode_batch([line, short])
    ]
    assert texts("auto", above=max(lengths)) == whole
    assert texts("auto", above=min(lengths)) == [apart, whole[1]]
    assert texts("on") == translate([line, short], model=untrained)
    assert texts("on")[0] == apart


def test_a_line_that_no_model_can_read_at_once_is_split_and_not_cut(untrained, capsys, monkeypatch):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.max_positions", lambda models: 6)
    [found] = Translator(untrained)(["1 2 3! 4 5 6?"])
    assert len(found.sentences) == 2
    assert "too long" not in capsys.readouterr().err


def test_off_leaves_sentences_together_and_lines_apart(untrained):
    lines = [translate(each, model=untrained, split="off") for each in ("1 2 3?  4 5!", "7 8 9 0! 6?")]
    assert translate(TEXT, model=untrained, split="off") == "\n\n".join(lines)


@pytest.mark.parametrize("control", [{"must_contain": "4"}, {"stop": "4"}])
def test_what_is_asked_of_a_whole_line_is_not_asked_of_each_sentence(untrained, capsys, control):
    text = "1 2! 3?"
    whole = translate(text, model=untrained, split="off", **control)
    assert "not split" not in capsys.readouterr().err
    assert translate([text, text], model=untrained, **control) == [whole, whole]
    assert capsys.readouterr().err.count(f"not split into sentences, for {next(iter(control))}") == 1
    with pytest.raises(ConfigError, match=f"{next(iter(control))} = .* and split = 'on'"):
        Translator(untrained, split="on", **control)


def test_a_wrong_split_is_named_and_summaries_are_of_whole_texts(untrained):
    with pytest.raises(ConfigError, match="split = 'maybe' is not one of auto, on, off"):
        Splitter("maybe", UNSET, lambda lines: [])
    with pytest.raises(TypeError, match="split"):
        Summarizer(untrained, split="on")
    [found] = Summarizer(untrained).texts(["1 2! 3?"])
    assert found.sentences == ()


def test_lines_are_counted_as_they_are_done(untrained):
    counted = []
    translator = Translator(untrained, split="on", batch_tokens=1)
    list(translator(["1 2! 3?", "", "4"], done=counted.append))
    assert sum(counted) == 3
    assert len(counted) == 4
    assert all(each in (0, 1) for each in counted)


def test_the_length_quantile_is_that_of_all_but_a_hundredth(tmp_path):
    settings = CorpusSettings(synthetic="copy", size=300, length=9)
    corpus = open_corpus(settings, LinePolicy(), tmp_path)
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="words"))
    write_shards(corpus, tokenizers, tmp_path / "train", max_tokens=100)
    lengths = sorted(len(each) for each in tokenizers.source.encode_batch([pair.source for pair in corpus]))
    found = ShardedPairs(tmp_path / "train").length_quantile(0.99)
    assert sum(length > found for length in lengths) <= 3
    assert sum(length >= found for length in lengths) > 3


def candidate(score):
    return TranslationCandidate(text=str(score), score=score, log_prob=score, tokens=(), token_log_probs=())


@given(
    st.lists(st.lists(st.integers(-9, 0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_combinations_are_the_best_of_all(scores, count):
    sentences = [[candidate(float(score)) for score in sorted(each, reverse=True)] for each in scores]
    found = [sum(each.score for each in chosen) for chosen in combinations(sentences, count)]
    every = sorted((sum(each.score for each in one) for one in itertools.product(*sentences)), reverse=True)
    assert found == every[:count]
    assert combinations(sentences, count)[0] == tuple(each[0] for each in sentences)
    assert len(in_step(sentences, count)) == min(count, max(map(len, sentences)))


@pytest.mark.parametrize("text", ["1 2 3?\n\n", "\r\n 1 2 3?  4 5!\r\n", "\n\t", " \n1 2 3?", "", "1 2 3?"])
@pytest.mark.parametrize("split", ["auto", "on", "off"])
def test_a_text_keeps_the_white_space_at_its_ends_and_a_line_of_a_file_does_not(untrained, text, split):
    translator = Translator(untrained, n_best=2, split=split)
    [bare] = translator.texts([text.strip()])
    [found] = translator.texts([text])
    before, after = edges(text)
    assert [each.text for each in found.candidates] == [
        before + each.text + after for each in bare.candidates
    ]
    assert [each.log_prob for each in found.candidates] == [each.log_prob for each in bare.candidates]
    assert found.source == text
    [line] = translator([text.strip()])
    assert [each.text for each in translator([f" {text.strip()} "])] == [line.text]


def test_a_summary_has_no_white_space_of_its_text(untrained):
    summarizer = Summarizer(untrained)
    [bare], [found] = summarizer.texts(["1 2 3?"]), summarizer.texts(["\n1 2 3?\n\n"])
    assert found.text == bare.text


@given(st.text(alphabet=" a\n\r\u00a0", max_size=8))
def test_the_edges_of_a_text_are_its_white_space_once(text):
    before, after = edges(text)
    assert before + text.strip() + after == text
    assert not (before + after).strip()


@given(st.text(alphabet=" a.?\n你。Mr", max_size=30))
def test_sentences_that_stay_as_they_are_give_the_text(text):
    pieces = split_sentences(text)
    same = joined(pieces, [each.strip() for each in pieces])
    assert same.replace(" ", "") == text.strip().replace(" ", "")
    if "。" not in text:
        assert same == text.strip()


def test_a_space_parts_sentences_that_touch_unless_their_script_has_none():
    pieces = ["你好。", "你好吗？", "好 "]
    assert joined(pieces, ["Hello.", "How are you?", "Fine."]) == "Hello. How are you? Fine."
    assert joined(pieces, ["今日は。", "元気？", "はい"]) == "今日は。元気？はい"
