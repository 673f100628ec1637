"""Limits of tokenizer.json: a file that could blow up a text is refused when it is read."""

import base64
import json

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import SPECIALS
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import FolderError

SPECIAL_TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3, vocab_size=8)
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
PREPEND = {"type": "Prepend", "prepend": "a" * 100}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def file(**changes: object) -> bytes:
    """A small tokenizer.json with these parts."""
    vocab = {piece: number for number, piece in enumerate((*SPECIALS, "a", "b", "▁", "##a"))}
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="<unk>"))
    return json.dumps(
        {**with_special_tokens(json.loads(backend.to_str()), SPECIAL_TOKENS), **changes}
    ).encode()


def several(kind: str, *parts: object) -> dict[str, object]:
    names = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
    return {kind: {"type": "Sequence", names[kind]: list(parts)}}


def without_type(part: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in part.items() if key != "type"}


def charsmap(*texts: bytes) -> dict[str, object]:
    table = (8).to_bytes(4, "little") + bytes(8) + b"\0".join(texts) + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


HOSTILE = {
    "36 decoders that double a letter": (several("decoder", *[DOUBLE] * 36), "decoder has more than"),
    "few that double it": (several("decoder", *[DOUBLE] * 12), "decoder can make a text"),
    "one long one": (
        {"decoder": DOUBLE | {"content": "a" * 1000}},
        "decoder can make a text 1e[+]03 times as long, more than 16",
    ),
    "5,000 normalisers that prepend": (several("normalizer", *[PREPEND] * 5000), "normalizer has more than"),
    "few long ones": (several("normalizer", *[PREPEND] * 20), "puts 2,000 bytes before a text"),
    "a replacement that grows": (
        several("normalizer", *[DOUBLE | {"content": "aaa"}] * 8),
        "can make a text 6.56e[+]03 times as long",
    ),
    "growth shared between roles": (
        several("normalizer", *[DOUBLE] * 8) | several("pre_tokenizer", *[BYTES] * 8),
        "can make a text 6.55e[+]04",
    ),
    "nothing replaced": (several("decoder", DOUBLE | {"pattern": {"String": ""}}), "replaces the empty text"),
    "parts within parts": (
        several("decoder", *[several("decoder", *[DOUBLE] * 6)["decoder"]] * 6),
        "has more than",
    ),
    "a long text": ({"decoder": DOUBLE | {"content": "a" * 10**5}}, "a content of 100,000 characters"),
    "a table that grows": ({"normalizer": charsmap(b"a" * 5000)}, "5e[+]03 times as long"),
    "a table that is none": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}},
        "not base64",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_parts_that_make_much_of_little_are_refused(name):
    changes, why = HOSTILE[name]
    with pytest.raises(FolderError, match=why) as caught:
        Tokenizer.from_bytes(file(**changes))
    assert caught.value.hint


@pytest.mark.parametrize("role", ["normalizer", "decoder", "model"])
@pytest.mark.parametrize("pretrained", [False, True])
def test_a_part_without_a_type_is_refused(role, pretrained):
    """The library takes it for one by its keys, so no limit of its kind would hold."""
    settings = TokenizerSettings(kind="bpe", vocab_size=60)
    content = json.loads(train_tokenizer(["a cat and a dog"], "bpe", settings).to_bytes())
    if pretrained:
        content = with_special_tokens(content, SPECIAL_TOKENS)
    changes = several(role, *[without_type(DOUBLE)] * 20) if role != "model" else {}
    content |= changes or {"model": without_type(content["model"])}
    with pytest.raises(FolderError, match=f"{role} None is unknown"):
        Tokenizer.from_bytes(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"max_input_chars_per_word": 10**6}, "max_input_chars_per_word = 1000000"),
        ({"continuing_subword_prefix": "#" * 10**5}, "continuing_subword_prefix of 100,000 characters"),
        ({"vocab": {"a" * 20_000: 0}}, "a piece of 20,000 characters"),
    ],
)
def test_models_that_take_long_are_refused(change, why):
    content = json.loads(file())
    with pytest.raises(FolderError, match=why):
        Tokenizer.from_bytes(file(model=content["model"] | change))


def test_special_tokens_put_little_before_a_text():
    processor = SPECIAL_TOKENS.post_processor()
    long = SpecialTokens(pad=0, unk=1, bos=2, eos=3, vocab_size=8, prefix=(4,) * 1000).post_processor()
    with pytest.raises(FolderError, match="a special token has 1,000 ids"):
        Tokenizer.from_bytes(file(post_processor=long))
    often = processor | {"single": [{"Sequence": {"id": "A", "type_id": 0}}] * 10_000}
    with pytest.raises(FolderError, match="its template is not that of regard"):
        Tokenizer.from_bytes(file(post_processor=often))


def test_the_bounds_let_known_tokenisers_in():
    """ALBERT's normaliser and Llama's decoder have the largest growth of the known families."""
    albert = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    llama = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend = tokenizers.Tokenizer(models.WordLevel({each: i for i, each in enumerate("pubea")}, "u"))
    backend.normalizer, backend.decoder = albert, llama
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    content = json.loads(backend.to_str())
    table = charsmap(b"\xd8\xb5\xd9\x84\xd9\x89 " * 4)  # as long as the longest of T5's, of U+FDFA
    content["normalizer"]["normalizers"].append(table)
    tokenizer = Tokenizer.from_bytes(json.dumps(with_special_tokens(content, SPECIAL_TOKENS)).encode())
    assert tokenizer.encode("") == []


@pytest.mark.parametrize(
    "model",
    [
        {"type": "WordPiece", "unk_token": "[UNK]"},
        {"type": "WordLevel", "unk_token": "[UNK]"},
        {"type": "BPE", "unk_token": "[UNK]", "merges": []},
        {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]]},
    ],
    ids=lambda model: model["type"],
)
def test_a_tokeniser_without_the_piece_for_what_it_does_not_know_is_refused(model):
    """The library would fail only at the first unknown word."""
    content = json.loads(file())
    with pytest.raises(FolderError, match=r"unknown token"):
        Tokenizer.from_bytes(file(model=content["model"] | model))
