"""Files of a tokeniser that are not what they should be are refused by name, with their reason."""

import dataclasses
import json

import pytest

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_file import UNMATCHED
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.bert import BERT
from regard.weights.families.family import ConvertedConfig
from regard.weights.families.gpt2 import GPT2
from regard.weights.families.m2m100 import M2M100
from regard.weights.families.mbart import MBART
from regard.weights.families.pegasus import Pegasus
from regard.weights.huggingface_tokenizer import (
    _languages,
    adds_bos,
    read_tokenizers,
    special_token_ids,
    write_tokenizers,
)
from tests.weights.test_marian_languages import TRANSLATOR, of_languages

SETTINGS = "tokenizer_config.json"
CONVERTED = ConvertedConfig(
    config=DecoderOnlyConfig(vocab_size=9, d_model=8, num_heads=2, num_layers=1, d_ff=8)
)
WORDS = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))


@pytest.mark.parametrize("pieces", [{}, {"a": "0"}, {"a": -1}, {"a": 0.5}, {"a": True}], ids=str)
def test_pieces_have_ids_from_0_on(tmp_path, pieces):
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "vocab.json").write_text(json.dumps(pieces))
    with pytest.raises(FolderError, match=r"vocab.json is not an object of pieces and ids") as refused:
        read_tokenizers(tmp_path, GPT2(), CONVERTED)
    assert refused.value.hint


def test_a_file_of_lines_is_text(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(FolderError, match=r"vocab.txt: 'utf-8' codec") as refused:
        read_tokenizers(tmp_path, BERT(), CONVERTED)
    assert refused.value.hint == "copy the folder again"


def test_pieces_of_a_tokenizer_json_have_ids_too(tmp_path):
    added = [{"content": "<x>", "id": "7", "special": True}]
    content = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": added}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(FolderError, match="its pieces have no ids"):
        read_tokenizers(tmp_path, GPT2(), CONVERTED)


def test_the_spiece_model_of_pegasus_is_refused_with_what_would_do(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"")
    with pytest.raises(FolderError, match=r"the spiece.model of this family is not supported") as refused:
        read_tokenizers(tmp_path, Pegasus(), CONVERTED)
    assert "tokenizer.json" in refused.value.hint


def languages(folder, family, vocabulary, *, special=(), last=None, **settings):
    content = {"added_tokens": [{"content": each, "special": True} for each in special] or None}
    if last is not None:
        single = [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": last}}]
        content["post_processor"] = {"type": "TemplateProcessing", "single": single}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return _languages(content, {piece: number for number, piece in enumerate(vocabulary)}, folder, family)


def test_languages_are_special_tokens_of_their_form_or_else_all_pieces_of_it(tmp_path):
    pieces = ["</s>", "__de__", "a", "__en__", "__en"]
    assert languages(tmp_path, M2M100(), pieces) == (1, 3)
    assert languages(tmp_path, M2M100(), pieces, special=["</s>", "__en__"]) == (3,)
    assert languages(tmp_path, M2M100(), pieces, last="</s>") == (1, 3)
    assert languages(tmp_path, GPT2(), pieces) == ()


@pytest.mark.parametrize(
    "ending",
    [
        {"last": "de_DE"},
        {"legacy_behaviour": True},
        {"tokenizer_class": "MBartTokenizer"},
        {"tokenizer_class": "MBartTokenizerFast"},
    ],
    ids=str,
)
def test_texts_that_end_with_their_language_are_refused(tmp_path, ending):
    with pytest.raises(FolderError, match="its texts end with the token of their language") as refused:
        languages(tmp_path, MBART(), ["</s>", "de_DE"], **ending)
    assert "mBART-50" in refused.value.hint
    others = {"last": "</s>", "legacy_behaviour": False, "tokenizer_class": "MBart50Tokenizer"}
    assert languages(tmp_path, MBART(), ["</s>", "de_DE"], **others) == (1,)


def test_a_tokenizer_without_an_end_token_is_refused(tmp_path):
    content = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(FolderError, match="the eos token is unknown") as refused:
        read_tokenizers(tmp_path, GPT2(), CONVERTED)
    assert refused.value.hint == "set eos_token_id in config.json"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"eos_id": 2}, (2, 2, 2, 2)),
        ({"eos_id": 2, "pad_id": 1}, (1, 2, 1, 2)),
        ({"eos_id": 2, "start_id": 1}, (2, 2, 1, 2)),
    ],
    ids=str,
)
def test_a_special_token_that_nothing_names_is_the_end_token_and_bos_the_padding(tmp_path, given, found):
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "c": 2}))
    tokenizer = read_tokenizers(tmp_path, GPT2(), dataclasses.replace(CONVERTED, **given)).source
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == found


def test_the_file_of_special_tokens_comes_before_the_file_of_settings(tmp_path):
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "c": 2}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "a", "pad_token": "b"}))
    for special, found in (({}, (1, 0)), ({"eos_token": {"content": "c"}}, (1, 2))):
        (tmp_path / "special_tokens_map.json").write_text(json.dumps(special))
        tokenizer = read_tokenizers(tmp_path, GPT2(), CONVERTED).source
        assert (tokenizer.pad_id, tokenizer.eos_id) == found


@pytest.mark.parametrize("prefix", [(), (4,), (5, 4)])
def test_the_first_token_of_texts_is_the_first_of_the_prefix(prefix):
    plain = Tokenizer.from_bytes(WORDS.to_bytes())
    tokenizer = plain.with_prefix(prefix) if prefix else plain
    found = special_token_ids(TokenizerPair(tokenizer, tokenizer))
    ids = {"pad_token_id": WORDS.pad_id, "bos_token_id": WORDS.bos_id, "eos_token_id": WORDS.eos_id}
    assert found == {**ids, **({"first_token_id": prefix[0]} if prefix else {})}


TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {}}]}
AFTER = {"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"SpecialToken": {"id": "</s>"}}]}
BYTES = {"type": "ByteLevel"}


@pytest.mark.parametrize(
    ("processor", "adds"),
    [
        (None, False),
        (TEMPLATE, True),
        (AFTER, False),
        (BYTES, False),
        ({"type": "Sequence", "processors": [BYTES, TEMPLATE]}, True),
        ({"type": "Sequence", "processors": [AFTER, BYTES]}, False),
        ({"type": "Sequence", "processors": []}, False),
    ],
    ids=str,
)
def test_a_special_token_comes_before_every_text_if_a_template_puts_it_there(tmp_path, processor, adds):
    assert adds_bos(tmp_path) is False
    (tmp_path / "tokenizer.json").write_text(json.dumps({"post_processor": processor}))
    assert adds_bos(tmp_path) is adds


def test_the_languages_of_a_model_are_those_of_its_prefixes():
    pair = TokenizerPair(*(Tokenizer.from_bytes(WORDS.to_bytes()).with_prefix((each,)) for each in (4, 5)))
    for each in (pair.source, pair.target):
        each.languages = {"de": 4, "en": 5, "fr": 6}
    written = json.loads(write_tokenizers(pair, CONVERTED.config, "any")["tokenizer_config.json"])
    assert (written["src_lang"], written["tgt_lang"]) == ("de", "en")
    plain = json.loads(
        write_tokenizers(TokenizerPair(WORDS, WORDS), CONVERTED.config, "any")["tokenizer_config.json"]
    )
    assert not {"src_lang", "tgt_lang"} & {*plain}


@pytest.mark.parametrize("side", [0, 1])
def test_a_tokenizer_that_transformers_does_not_have_is_not_written(monkeypatch, side):
    pair = TokenizerPair(*(Tokenizer.from_bytes(WORDS.to_bytes()) for _ in range(2)))
    odd = (pair.source, pair.target)[side]
    monkeypatch.setattr(Tokenizer, "splits_pieces", property(lambda self: self is odd))
    with pytest.raises(FolderError, match="its tokeniser splits pieces") as refused:
        write_tokenizers(pair, CONVERTED.config, "any")
    assert "ctranslate2" in refused.value.hint


def test_special_tokens_without_a_role_are_named_too():
    """Those that a text may spell for transformers; a tokeniser of regard has none."""

    def named(tokenizer, config):
        settings = json.loads(write_tokenizers(TokenizerPair(tokenizer, tokenizer), config, "any")[SETTINGS])
        return settings.get("additional_special_tokens")

    content = json.loads(WORDS.to_bytes())
    special = SpecialTokens(pad=0, unk=1, bos=2, eos=3, vocab_size=WORDS.vocab_size + 1)
    flags = {**content["added_tokens"][0], "content": "<|im_start|>", "id": WORDS.vocab_size}
    content["added_tokens"].append(flags)
    chats = Tokenizer.from_bytes(json.dumps(with_special_tokens(content, special)).encode())
    assert named(chats, CONVERTED.config) == ["<|im_start|>"]
    assert named(of_languages(UNMATCHED, "Unigram"), TRANSLATOR) == [">>fra<<", ">>zh_hans<<"]
    assert named(WORDS, CONVERTED.config) is None
