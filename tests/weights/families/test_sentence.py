import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.families.sentence import lowers_case, sentence_files, sentence_settings

TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOLING = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
CONFIG = EncoderOnlyConfig(vocab_size=9, head="pooled", pooler=False, pooling="mean", d_model=24)


def write(folder: Path, name: str, table: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(table), "utf-8")


@pytest.fixture
def folder(tmp_path) -> Path:
    write(tmp_path, "modules.json", [TRANSFORMER, POOLING])
    write(tmp_path, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    return tmp_path


def refused(folder: Path, message: str) -> None:
    with pytest.raises(FolderError, match=message) as caught:
        sentence_settings(folder)
    assert caught.value.hint


def test_a_folder_without_further_files_has_no_limit_and_no_prompt(folder):
    assert sentence_settings(folder) == {
        "pooling": "mean",
        "normalised": False,
        "sentence_tokens": None,
        "sentence_prompt": "",
    }
    assert lowers_case(folder) is False


def test_vectors_are_normalised_by_a_module(folder):
    write(folder, "modules.json", [TRANSFORMER, POOLING, NORMALIZE])
    assert sentence_settings(folder)["normalised"] is True


def test_the_pooling_is_in_the_folder_that_its_module_names(folder):
    write(folder, "other/config.json", {"pooling_mode": "cls"})
    write(folder, "modules.json", [TRANSFORMER, {**POOLING, "path": "other"}])
    assert sentence_settings(folder)["pooling"] == "cls"
    write(folder, "modules.json", [TRANSFORMER, {"type": "Pooling"}])
    assert sentence_settings(folder)["pooling"] == "mean"
    write(folder, "modules.json", [TRANSFORMER])
    assert sentence_settings(folder)["pooling"] == "mean"


@pytest.mark.parametrize(
    ("table", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True, "word_embedding_dimension": 3}, "max"),
        ({"pooling_mode_mean_tokens": True, "include_prompt": True}, "mean"),
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({"pooling_mode": "cls", "pooling_mode_mean_tokens": True}, "cls"),
    ],
    ids=str,
)
def test_newer_and_older_files_name_the_pooling(folder, table, pooling):
    write(folder, "1_Pooling/config.json", table)
    assert sentence_settings(folder)["pooling"] == pooling


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({}, "nothing"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls, mean"),
        ({"pooling_mode_weightedmean_tokens": True}, "weightedmean_tokens"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode": ["cls", "mean"]}, "cls, mean"),
        ({"pooling_mode": []}, "nothing"),
    ],
    ids=str,
)
def test_another_pooling_is_refused(folder, table, found):
    write(folder, "1_Pooling/config.json", table)
    refused(folder, f"pooling by {found} is not supported")


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({}, "is not a list of modules"),
        ("text", "is not a list of modules"),
        ([1], "is not a list of modules"),
        ([{"path": ""}], "is not a list of modules"),
        ([{**POOLING, "path": 1}], "is not a list of modules"),
        ([TRANSFORMER, {"type": "a.Dense", "path": ""}], "Dense is not supported"),
        ([TRANSFORMER, POOLING, POOLING], "Pooling is not supported"),
        ([TRANSFORMER, {**POOLING, "path": "/etc"}], "'/etc' is outside the folder"),
        ([TRANSFORMER, {**POOLING, "path": "a/../.."}], "is outside the folder"),
    ],
    ids=str,
)
def test_other_modules_are_refused(folder, modules, message):
    write(folder, "modules.json", modules)
    refused(folder, message)


LENGTHS = [
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]


@pytest.mark.parametrize("name", LENGTHS)
def test_the_number_of_tokens_is_in_a_file_of_the_family(folder, name):
    write(folder, name, {"max_seq_length": 3, "do_lower_case": True})
    write(folder, "tokenizer_config.json", {"model_max_length": 9})
    assert sentence_settings(folder)["sentence_tokens"] == 3
    assert lowers_case(folder) is True


@pytest.mark.parametrize(
    ("limit", "tokens"), [(9, 9), (10**7, 10**7), (10**7 + 1, None), (1e30, None), (None, None)]
)
def test_the_tokeniser_has_the_limit_if_no_file_of_the_family_has_one(folder, limit, tokens):
    write(folder, "tokenizer_config.json", {"model_max_length": limit})
    assert sentence_settings(folder)["sentence_tokens"] == tokens
    write(folder, "sentence_bert_config.json", {"do_lower_case": False})
    assert sentence_settings(folder)["sentence_tokens"] == tokens


@pytest.mark.parametrize("limit", [2, 0, -5, True, "9"])
def test_a_limit_without_room_for_a_token_is_refused(folder, limit):
    write(folder, "tokenizer_config.json", {"model_max_length": limit})
    refused(folder, r"tokenizer_config.json: model_max_length = .* is not supported")
    write(folder, "sentence_bert_config.json", {"max_seq_length": limit})
    refused(folder, r"sentence_bert_config.json: max_seq_length = .* is not supported")


def test_lower_case_is_true_or_false(folder):
    write(folder, "sentence_bert_config.json", {"do_lower_case": 1})
    with pytest.raises(FolderError, match="do_lower_case = 1 is not supported"):
        lowers_case(folder)


PROMPTS = {"prompts": {"query": "query: ", "other": "o: "}, "default_prompt_name": "query"}


def test_the_default_prompt_is_one_of_the_prompts(folder):
    name = "config_sentence_transformers.json"
    for changes, prompt in (
        ({}, "query: "),
        ({"default_prompt_name": None}, ""),
        ({"default_prompt_name": None, "prompts": None}, ""),
    ):
        write(folder, name, PROMPTS | changes)
        assert sentence_settings(folder)["sentence_prompt"] == prompt
    for changes in (
        {"default_prompt_name": "quary"},
        {"prompts": {"query": 1}},
        {"prompts": ["query"]},
        {"prompts": None},
    ):
        write(folder, name, PROMPTS | changes)
        refused(folder, "default_prompt_name = .* is not one of its prompts")


def test_a_misspelt_prompt_is_named(folder):
    write(folder, "config_sentence_transformers.json", {**PROMPTS, "default_prompt_name": "quary"})
    with pytest.raises(FolderError) as caught:
        sentence_settings(folder)
    assert "'query'" in caught.value.hint


def test_a_prompt_that_is_not_pooled_is_refused(folder):
    pooling = {"pooling_mode_mean_tokens": True, "include_prompt": False}
    write(folder, "1_Pooling/config.json", pooling)
    assert sentence_settings(folder)["pooling"] == "mean"  # without a prompt it changes nothing
    write(folder, "config_sentence_transformers.json", PROMPTS)
    refused(folder, "include_prompt = false is not supported")
    write(folder, "1_Pooling/config.json", {**pooling, "include_prompt": True})
    assert sentence_settings(folder)["sentence_prompt"] == "query: "


@pytest.mark.parametrize("normalised", [False, True])
def test_files_are_those_of_sentence_transformers(normalised):
    files = sentence_files(dataclasses.replace(CONFIG, normalised=normalised))
    modules = [TRANSFORMER, POOLING, *([NORMALIZE] if normalised else [])]
    numbered = [{"idx": number, "name": str(number), **each} for number, each in enumerate(modules)]
    assert json.loads(files["modules.json"]) == numbered
    assert json.loads(files["1_Pooling/config.json"]) == {
        "word_embedding_dimension": 24,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
    }
    assert len(files) == 2


@pytest.mark.parametrize("tokens", [None, 3])
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_what_is_written_is_read_back(tmp_path, tokens, prompt):
    config = dataclasses.replace(CONFIG, pooling="max", sentence_tokens=tokens, sentence_prompt=prompt)
    files = sentence_files(config)
    assert ("sentence_bert_config.json" in files) == (tokens is not None)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert sentence_settings(tmp_path) == {
        "pooling": "max",
        "normalised": False,
        "sentence_tokens": tokens,
        "sentence_prompt": prompt,
    }
    assert lowers_case(tmp_path) is False  # tokenizer.json does it
