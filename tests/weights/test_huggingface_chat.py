"""The chat template of a Hugging Face folder is a file or a setting, with the texts of its special tokens."""

import json

import pytest

from regard.data.chat_template import ChatTemplate
from regard.errors import FolderError
from regard.weights.huggingface_chat import read_chat_template, with_chat_template

TEMPLATE = "{{ messages[0].content }}"


def settings(folder, **table):
    (folder / "tokenizer_config.json").write_text(json.dumps(table), "utf-8")


def test_a_folder_without_a_template_has_none(tmp_path):
    assert read_chat_template(tmp_path) is None
    settings(tmp_path, eos_token="</s>")
    assert read_chat_template(tmp_path) is None


def test_a_template_is_a_text_or_the_default_one_of_several_or_a_file(tmp_path):
    settings(tmp_path, chat_template=TEMPLATE)
    assert read_chat_template(tmp_path) == ChatTemplate(template=TEMPLATE, special_tokens={})
    several = [{"name": "tools", "template": "x"}, 7, {"name": "default", "template": TEMPLATE}]
    settings(tmp_path, chat_template=several)
    assert read_chat_template(tmp_path).template == TEMPLATE
    (tmp_path / "chat_template.jinja").write_text("a file", "utf-8")
    assert read_chat_template(tmp_path).template == "a file"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(FolderError, match=r"chat_template\.jinja: .*utf-8"):
        read_chat_template(tmp_path)


@pytest.mark.parametrize("wrong", [7, {}, [], [{"name": "tools", "template": "x"}], [{"name": "default"}]])
def test_a_template_that_is_none_is_refused(tmp_path, wrong):
    settings(tmp_path, chat_template=wrong)
    with pytest.raises(FolderError, match="chat_template is neither a text nor has one named 'default'"):
        read_chat_template(tmp_path)


def test_special_tokens_are_texts_and_the_settings_come_before_the_map(tmp_path):
    special = {"eos_token": "<a>", "bos_token": {"content": "<b>"}, "additional_special_tokens": ["<c>"]}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    settings(tmp_path, chat_template=TEMPLATE, eos_token="<d>", pad_token=None, other="<e>")
    assert read_chat_template(tmp_path).special_tokens == {"eos_token": "<d>", "bos_token": "<b>"}


def test_what_is_written_is_read(tmp_path):
    template = ChatTemplate(template=TEMPLATE, special_tokens={"eos_token": "</s>"})
    for name, content in with_chat_template({"tokenizer_config.json": b'{"a": 1}'}, template).items():
        (tmp_path / name).write_bytes(content)
    assert read_chat_template(tmp_path) == template
    assert json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))["a"] == 1
