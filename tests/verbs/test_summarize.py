"""Summaries; a model's prefix, read from its folder, is put before each text."""

import json

import pytest
import torch

import regard
from regard.errors import ConfigError, FolderError
from regard.verbs.generation.prefixes import default_prefix, prefix_of
from regard.verbs.score import PairScorer, score
from regard.verbs.serve import TranslationAnswerer
from regard.verbs.shared.answerer import AnswerSettings
from regard.verbs.shared.model_loading import load_named_model
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.summarize import Summarizer, summarize, summarize_file
from regard.verbs.translate import Translator, translate

TEXT = "a good film"
HOW = {"beam_size": 1, "max_new_tokens": 6}
TASKS = {
    "summarization": {"prefix": "summarize: ", "num_beams": 4},
    "translation_en_to_de": {"prefix": "translate English to German: "},
    "translation_en_to_fr": {"prefix": "translate English to French: "},
}
BUCKETS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SIDES = {
    f"{side}_{name}": number
    for side in ("encoder", "decoder")
    for name, number in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 24))
}


def with_config(folder, **settings):
    """The folder, whose config.json says this too."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **settings}), "utf-8")
    return folder


@pytest.fixture(scope="module")
def t5(their_folder):
    sizes = {"d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 24, "num_layers": 1, **BUCKETS}
    folder, *_ = their_folder("T5ForConditionalGeneration", "T5Config", sizes, pieces="bytes")
    return with_config(folder, task_specific_params=TASKS)


@pytest.fixture(scope="module")
def marian(their_folder):
    sizes = {"d_model": 16, "max_position_embeddings": 64, "forced_eos_token_id": None, **SIDES, **BUCKETS}
    more = [">>fra<<", ">>deu<<"]
    return their_folder("MarianMTModel", "MarianConfig", sizes, pieces="bytes", more=more)[0]


@pytest.fixture(scope="module")
def bart(their_folder):
    marks = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    sizes = {"d_model": 16, "max_position_embeddings": 64, "forced_eos_token_id": None, **SIDES, **marks}
    folder, *_ = their_folder("BartForConditionalGeneration", "BartConfig", sizes, pieces="bytes")
    return with_config(folder, prefix=" ")


def said(verb, model, text, **settings):
    """The probability of a model's output, which differs if other ids were read."""
    [answer] = verb(model, **HOW, **settings)([text])
    return answer.candidates[0].log_prob


def test_the_folder_s_prefix_stands_before_each_text_unless_another_is_given(t5):
    alone = said(Summarizer, t5, TEXT)
    assert alone == said(Summarizer, t5, "summarize: " + TEXT, prefix="")
    assert alone == said(Translator, t5, TEXT, prefix="summarize: ")
    assert alone != said(Summarizer, t5, TEXT, prefix="")
    assert summarize(TEXT, model=t5, **HOW) == translate(TEXT, model=t5, prefix="summarize: ", **HOW)
    assert regard.summarize([TEXT, ""], model=t5, **HOW) == [summarize(TEXT, model=t5, **HOW), ""]


def test_several_languages_must_be_chosen_among(t5):
    with pytest.raises(
        ConfigError, match="several prefixes, for translation_en_to_de, translation_en_to_fr"
    ) as e:
        translate(TEXT, model=t5)
    assert "--prefix 'translate English to German: '" in e.value.hint
    assert said(Translator, t5, TEXT, prefix=TASKS["translation_en_to_fr"]["prefix"])
    assert (
        default_prefix({"translation_en_to_de": "to German: ", "summarization": "s: "}, "translation")
        == "to German: "
    )
    assert default_prefix({"": " ", "summarization": "s: "}, "translation") == " "
    assert default_prefix(None, "translation") == ""


def test_a_converted_folder_keeps_its_prefixes(t5, tmp_path):
    regard.convert(t5, out=tmp_path / "ours")
    assert said(Summarizer, tmp_path / "ours", TEXT) == said(Summarizer, t5, TEXT)


def test_a_language_is_a_token_that_no_text_makes(marian):
    tokenizer = regard.load(marian).tokenizers.source
    french, german = (prefix_of(f">>{name}<<", tokenizer) for name in ("fra", "deu"))
    assert french.first([7, 8], tokenizer) == [tokenizer.vocabulary()[">>fra<<"], 7, 8]
    assert french.ids != german.ids
    assert not {*french.ids, *german.ids} & {*tokenizer.encode(">>fra<< >>deu<<")}
    assert said(Translator, marian, TEXT, prefix=">>fra<<") != said(
        Translator, marian, TEXT, prefix=">>deu<<"
    )
    assert said(Translator, marian, TEXT) != said(Translator, marian, TEXT, prefix=">>fra<<")
    with pytest.raises(ConfigError, match=">>fr<< is not a language of this model") as refused:
        translate(TEXT, model=marian, prefix=">>fr<<")
    assert ">>fra<<" in refused.value.hint


def test_a_text_that_spells_a_language_is_named_once(marian, t5, capsys):
    """A language that the model lacks is then named by the error of the prefix."""

    def warned(model, *texts, **settings):
        list(Translator(model, **HOW, **settings)(texts))
        return capsys.readouterr().err

    for tag in (">>fra<<", ">>fr<<"):
        found = warned(marian, TEXT, f"{tag} {TEXT}", f"{tag} {TEXT}")
        assert found.count(f"line 2 begins with {tag}, which the model reads as text") == 1
        assert f"give --prefix '{tag}'" in warned(marian, f"{tag} {TEXT}", prefix=">>fra<<")
    assert "begins with" not in warned(marian, TEXT, f"{TEXT} >>fra<<", ">> fra <<", prefix=">>fra<<")
    assert "begins with" not in warned(t5, f">>fra<< {TEXT}", prefix="")  # a model without languages


def test_score_and_servers_name_a_text_that_spells_a_language_once(marian, tmp_path, capsys):
    (tmp_path / "src").write_text(f"{TEXT}\n>>fra<< {TEXT}\n>>fra<< {TEXT}\n")
    (tmp_path / "ref").write_text(f"{TEXT}\n" * 3)
    for prefix in (None, ">>fra<<"):
        score(model=marian, src=tmp_path / "src", ref=tmp_path / "ref", prefix=prefix)
        assert capsys.readouterr().err.count("src:2 begins with >>fra<<, which the model reads as text") == 1
    list(PairScorer(marian).answers([f">>fra<< {TEXT}\t{TEXT}"] * 2, 5))
    assert capsys.readouterr().err.count("line 5 begins with >>fra<<") == 1
    answerer = TranslationAnswerer(
        load_named_model(marian, torch.device("cpu")), AnswerSettings(task="translate"), DecodingRuntime()
    )
    for _ in range(2):
        answerer.pieces([TEXT, f">>fra<< {TEXT}"])
    found = capsys.readouterr().err
    assert found.count("a text begins with >>fra<<") == 1
    assert "give the prefix of the request as '>>fra<<'" in found


def test_a_prefix_comes_after_the_mark_that_begins_a_text(bart):
    tokenizer = regard.load(bart).tokenizers.source
    assert tokenizer.prefix == (0,)
    assert prefix_of("b ", tokenizer).first([0, 7], tokenizer) == [0, 7]
    assert said(Summarizer, bart, TEXT) == said(Summarizer, bart, TEXT, prefix=" ")
    assert said(Summarizer, bart, TEXT) != said(Summarizer, bart, TEXT, prefix="")


def test_a_damaged_table_of_prefixes_is_refused(t5, marian, tmp_path):
    import shutil

    folder = tmp_path / "damaged"
    shutil.copytree(t5, folder)
    for wrong in ({"task_specific_params": [1]}, {"task_specific_params": {"a": 1}}):
        with pytest.raises(FolderError, match="task_specific_params is not an object of objects"):
            summarize(TEXT, model=with_config(folder, **wrong))
    with pytest.raises(FolderError, match="the prefix 3 of summarization is not text"):
        summarize(TEXT, model=with_config(folder, task_specific_params={"summarization": {"prefix": 3}}))


def test_a_file_is_summarized_line_by_line(t5, tmp_path):
    (tmp_path / "texts").write_text(f"{TEXT}\n\nfilm\n", "utf-8")
    assert summarize_file(tmp_path / "texts", tmp_path / "out", model=t5, as_json=True, **HOW) == 3
    records = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert [record["summary"] for record in records] == summarize([TEXT, "", "film"], model=t5, **HOW)


def test_a_model_without_a_source_is_refused(decoder_folder):
    with pytest.raises(FolderError, match="this is not a model that summarizes"):
        summarize(TEXT, model=decoder_folder())
