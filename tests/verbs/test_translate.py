"""One line out for each line in, in order; a translation does not depend on the other lines."""

import copy
import functools
import json
import os
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizer_extension import ExtensionSettings, extend_tokenizer
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.decoding import batches
from regard.errors import ConfigError, DataError, FolderError, RecipeError, UserError
from regard.training.threads import threads
from regard.verbs.generation.prefixes import prefix_of
from regard.verbs.generation.translations import output_lines, write_lines
from regard.verbs.generation.translator import MAX_CHARACTERS
from regard.verbs.load import load
from regard.verbs.shared.device import choose_workers
from regard.verbs.translate import Translator, translate, translate_file
from tests.nightly import nightly_but

LINES = ["1 2 3", "", "4", " \t ", "9 8 7 6 5 4 3 2 1 0 " * 4, "unknown words", "0 0"]


def test_a_text_gives_a_text_and_several_give_several(untrained):
    one = translate("1 2 3", model=untrained)
    assert isinstance(one, str)
    assert one
    several = translate(LINES, model=untrained)
    assert several[0] == one
    assert len(several) == len(LINES)
    assert [bool(text.strip()) for text in several] == [bool(line.strip()) for line in LINES]


@pytest.mark.parametrize("batch_tokens", [1, 40, 8192])
def test_neither_batch_nor_neighbours_change_a_translation(untrained, batch_tokens):
    together = translate(LINES, model=untrained, batch_tokens=batch_tokens)
    assert together == [translate(line, model=untrained) for line in LINES]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_workers_change_no_translation(untrained, monkeypatch, precision):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.FEW", 2)
    monkeypatch.setattr("regard.fast.int8.MIN_WEIGHTS", 0)
    alone = translate(LINES, model=untrained, workers=1, precision=precision)
    assert translate(LINES, model=untrained, workers=3, precision=precision) == alone
    assert translate(LINES, model=untrained, workers=1, precision=precision, batch_tokens=1) == alone


@pytest.mark.parametrize("by", nightly_but(["copy", "data", "numpy"], "copy", "numpy"))
def test_workers_follow_a_model_that_changes(untrained, monkeypatch, by):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.FEW", 2)
    loaded = load(untrained)
    translator = Translator(loaded, workers=2)
    before = [each.text for each in translator(LINES)]
    weight = loaded.model.output.weight
    flipped = weight.detach().flip(0).clone()
    if by == "copy":
        with torch.no_grad():
            weight.copy_(flipped)
    elif by == "data":
        weight.data.copy_(flipped)
    else:
        weight.detach().numpy()[:] = flipped.numpy()
    changed = [each.text for each in translator(LINES)]
    assert changed != before
    assert changed == [each.text for each in Translator(loaded, workers=1)(LINES)]


def test_a_hook_sees_every_line_whatever_the_number_of_workers(untrained, monkeypatch):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.FEW", 2)
    loaded = load(untrained)
    block, seen = loaded.model.get_submodule("encoder.blocks.0"), {}
    for workers in (1, 2):
        translator, rows = Translator(loaded, workers=workers, batch_tokens=1), []
        list(translator(LINES))  # the workers start
        hook = block.register_forward_hook(lambda module, given, found, rows=rows: rows.append(len(found)))
        list(translator(LINES))
        hook.remove()
        seen[workers] = sum(rows)
    assert seen[1] == seen[2] > 0


def test_a_translator_is_copied_before_and_after_its_workers_run(untrained, monkeypatch):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.FEW", 2)
    translator = Translator(untrained, workers=2)
    early = copy.deepcopy(translator)
    expected = [each.text for each in translator(LINES)]
    for each in (early, copy.deepcopy(translator)):
        assert [found.text for found in each(LINES)] == expected


def test_workers_are_for_a_cpu(untrained):
    with pytest.raises(UserError, match="workers is 0, but must be at least 1"):
        Translator(untrained, workers=0)
    with pytest.raises(RecipeError, match="on a CPU only"):
        choose_workers(2, torch.device("cuda"), None)
    assert choose_workers(None, torch.device("cuda"), None) == 1
    assert choose_workers(None, torch.device("cpu"), 2) == 1
    assert choose_workers(None, torch.device("cpu"), None) >= 1


def test_candidates_come_best_first_and_the_first_is_the_translation(untrained):
    best = translate(LINES, model=untrained, beam_size=3)
    ranked = translate(LINES, model=untrained, beam_size=3, n_best=3)
    assert [candidates[0] for candidates in ranked] == best
    assert [len(candidates) for candidates in ranked] == [3 if line.strip() else 1 for line in LINES]
    translations = list(Translator(untrained, beam_size=3, n_best=3)(LINES))
    for translation in translations:
        scores = [candidate.score for candidate in translation.candidates]
        assert scores == sorted(scores, reverse=True)


def test_more_candidates_than_the_beam_widen_it_unless_its_size_was_asked_for(untrained):
    assert len(translate("1 2", model=untrained, n_best=4)) == 4
    with pytest.raises(ConfigError, match="n_best"):
        translate("1 2", model=untrained, n_best=4, beam_size=3)


def test_lines_without_end_are_translated_as_they_come(untrained):
    translator = Translator(untrained)
    came = translator.in_chunks([str(i)] for i in iter(lambda: 7, None))
    assert [next(came).line for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("tag", [">>fr<<", "<2fr>", "__fr__", "__zho_Hans__"])
def test_a_split_text_whose_first_sentence_alone_has_a_tag_is_named_once(untrained, capsys, tag):
    translator = Translator(untrained)
    text = f"{tag} I like tea. Where is the station?"
    list(translator.texts([text, text]))
    assert capsys.readouterr().err.count(f"not all have {tag}: give --prefix '{tag}'") == 1
    whole = [
        f"{tag} I like tea.",
        f"{tag} I like tea.\n{tag} Where is the station?",
        "I like tea. Where is it?",
    ]
    list(Translator(untrained).texts([*whole, "__init__ is a name. It has two marks.", "<2 is it. Is it?"]))
    list(Translator(untrained, split="off").texts([text]))
    if not tag.startswith(">>"):  # which no line of this model's training had
        list(Translator(untrained, prefix=tag).texts([text]))
    assert "not all have" not in capsys.readouterr().err


def test_a_tag_that_the_model_does_not_know_is_named_once(untrained, monkeypatch, capsys):
    monkeypatch.setattr(
        "regard.verbs.generation.language_tags.known_tags", lambda tokenizer, trained: ["<2de>", "<2fr>"]
    )
    list(Translator(untrained)(["<2de> 1", "<2dee> 1", "<2xx> 2", "3"]))
    warnings = [line for line in capsys.readouterr().err.splitlines() if "no tag" in line]
    assert warnings == [
        "warning: line 2: <2dee> is no tag of this model, which knows <2de>, <2fr>",
    ]
    Translator(untrained, prefix="<2xx>")
    assert "prefix: <2xx> is no tag of this model" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["bpe", "bytebpe", "unigram", "words", "characters", "extended"])
@pytest.mark.parametrize("tag", [">>fr<<", "<2fr>", "__fr__"])
def test_a_tag_as_prefix_is_the_tag_of_the_training_lines(kind, tag):
    lines = [f"{tag} I like tea.", f"{tag} Where is the station?"] * 5
    trained = "bpe" if kind == "extended" else kind
    settings = TokenizerSettings(kind=trained, vocab_size=300)
    tokenizer = train_tokenizer([*lines, f"a {tag}"], trained, settings)
    if kind == "extended":
        tokenizer = extend_tokenizer(tokenizer, ExtensionSettings(tokens=("<<>>", tag)), [])
    for prefix in (tag, f"{tag} "):
        found = prefix_of(prefix, tokenizer).encoded(["I like tea."], tokenizer)
        assert found == [tokenizer.encode(lines[0])]


def test_a_line_that_is_too_long_is_cut_with_a_warning(untrained, capsys):
    long = "1 2 3 4 " * MAX_CHARACTERS
    found = translate(["2", long, long[:MAX_CHARACTERS]], model=untrained)
    assert found[1] == found[2]
    assert f"line 2 is too long ({len(long):,} characters)" in capsys.readouterr().err


def test_a_line_beyond_the_learned_positions_is_cut_to_them(untrained, capsys, monkeypatch):
    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.max_positions", lambda models: 4)
    assert translate("1 2 3 4 5", model=untrained) == translate("1 2 3", model=untrained)
    assert capsys.readouterr().err.count("is too long") == 1


def test_the_forms_of_print(untrained):
    translations = list(Translator(untrained, n_best=2)(["1 2", ""]))
    plain = "".join(map(output_lines, translations))
    assert plain == f"{translations[0].text}\n\n"
    ranked = "".join(output_lines(each, ranked=True) for each in translations).splitlines()
    assert [line.split("\t")[0] for line in ranked] == ["1", "1", "2"]
    assert ranked[0].split("\t")[2] == translations[0].text
    records = [json.loads(output_lines(each, as_json=True)) for each in translations]
    assert [record["line"] for record in records] == [1, 2]
    assert [record["translation"] for record in records] == [each.text for each in translations]
    assert records[0]["hypotheses"][0]["log_prob"] == translations[0].candidates[0].log_prob


def test_a_file_is_written_whole_or_not_at_all(untrained, tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "out").write_text("what was there\n")
    (tmp_path / "bad").write_bytes(b"1 2\n\xff\n")
    with pytest.raises(DataError, match="bad:2: not UTF-8"):
        translate_file(tmp_path / "bad", tmp_path / "out", model=untrained)
    assert (tmp_path / "out").read_text() == "what was there\n"
    assert translate_file(tmp_path / "in", tmp_path / "out", model=untrained) == len(LINES)
    texts = [text.strip() for text in translate(LINES, model=untrained)]
    assert (tmp_path / "out").read_text().split("\n")[:-1] == texts
    with pytest.raises(DataError, match="nowhere"):
        translate_file(tmp_path / "in", tmp_path / "nowhere" / "out", model=untrained)


def test_an_output_that_is_no_file_is_written_to_as_it_is(untrained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_lines(Translator(untrained)(["1"]), tmp_path / "pipe")
    reader.join(timeout=30)
    assert read == [translate("1", model=untrained) + "\n"]


def test_a_missing_model_is_reported(tmp_path):
    with pytest.raises(FolderError):
        translate("1", model=tmp_path / "absent")


@settings(max_examples=15, deadline=None)
@given(
    lines=st.lists(
        st.text(max_size=30)
        | st.sampled_from(
            ["", " ", "\u2028", "1 2\x853", "\ufeff1", "\0", "1 " * 30_000, "7" * 60_000, "\r"]
        ),
        max_size=8,
    )
)
def test_any_lines_are_as_many_in_the_same_order(untrained, lines):
    translator = cached(untrained)
    found = list(translator(lines))
    assert [each.line for each in found] == list(range(1, len(lines) + 1))
    assert [each.source for each in found] == lines
    for line, translation in zip(lines, found, strict=True):
        assert output_lines(translation).count("\n") == 1
        assert bool(translation.text) <= bool(line.strip())


@functools.cache
def cached(folder):
    return Translator(folder, batch_tokens=200, max_new_tokens=12, workers=1)


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, 1), ({"threads": 2}, 2), ({"workers": 1}, 2)],
    ids=["default", "threads", "workers"],
)
def test_a_few_lines_of_a_small_model_take_one_thread(monkeypatch, more, expected):
    seen = []

    def decode_all(*given, **named):
        seen.append(torch.get_num_threads())
        return batches.decode_all(*given, **named)

    monkeypatch.setattr("regard.verbs.generation.pooled_decoding.decode_all", decode_all)
    with threads(2):
        next(Translator(**more).texts(["Where is the station?"]))
        assert seen == [expected]
        assert torch.get_num_threads() == 2
