"""The tokeniser in JavaScript: the same ids and the same texts as the library's, on texts of many scripts."""

import json
import random

import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.data.tokenizer_file import BYTE_SPELLED, PRETRAINED_REGEXES, SPACES, SPACES_AROUND
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.exports.odd_texts import ODD_TEXTS
from regard.exports.refusal import NotExpressible
from regard.exports.web_characters import (
    as_text,
    changed,
    extending,
    lowercase,
    matched,
    normalized,
    prepended,
)
from regard.exports.web_tokenizers import classes_needed, refuse_unread

COMPARED = """
import { Tokenizer } from "./tokenizer.js";
const { file, characters, texts, ids } = GIVEN;
const tokenizer = new Tokenizer(file, characters);
const encoded = texts.map((text) => tokenizer.encode(text));
console.log(JSON.stringify([encoded, ids.map((each) => tokenizer.decode(each))]));
"""
KINDS = ("bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram", "wordpunct")
BLOCKS = [  # letters, marks, numbers and signs that are new in some version of Unicode, or normalised
    (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x870, 0x97F),
    (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1AB0, 0x1AFF), (0x1E00, 0x206F), (0x2070, 0x21FF),
    (0x3000, 0x30FF), (0x4E00, 0x4E80), (0xA7C0, 0xA7FF), (0xAC00, 0xAC80), (0xFB00, 0xFDFF),
    (0xFE00, 0xFFEF), (0x10780, 0x107BF), (0x11380, 0x113FF), (0x16D60, 0x16D7F), (0x1F300, 0x1F64F),
]  # fmt: skip


def hard_texts(count):
    """Random texts of one to three scripts, with spaces, hyphens and the spelling of special tokens."""
    generator = random.Random(7)
    made = []
    for _ in range(count):
        blocks = generator.sample(BLOCKS, generator.randint(1, 3))
        words = [
            chr(generator.randint(*generator.choice(blocks)))
            if generator.random() < 0.8
            else generator.choice([" ", "  ", "\t", "\n", "'", "-", "##", "<s>", "İ", "Σ"])
            for _ in range(generator.randint(1, 25))
        ]
        made.append("".join(words))
    return [*ODD_TEXTS, "I ❤️ it, ❤!️a 1️⃣ \u0301x", *made]


def assert_equal_in_javascript(run_node, backend, texts):
    """It encodes and decodes as the library does."""
    backend.encode_special_tokens = True
    encoded = [each.ids for each in backend.encode_batch_fast(texts, add_special_tokens=False)]
    draw = random.Random(3).randrange
    ids = [*encoded, *([draw(backend.get_vocab_size()) for _ in range(6)] for _ in range(200))]
    file = json.loads(backend.to_str())
    refuse_unread([file])
    given = {"file": file, "characters": classes_needed([file]), "texts": texts, "ids": ids}
    theirs, decoded = run_node(COMPARED, given)
    for text, their, our in zip(texts, theirs, encoded, strict=True):
        assert their == our, text
    assert decoded == [backend.decode(each, skip_special_tokens=False) for each in ids]


# each kind with one of the settings for every change, with the other nightly
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(kind, settings, marks=pytest.mark.nightly if (number + turn) % 2 else ())
        for number, kind in enumerate(KINDS)
        for turn, settings in enumerate([{}, {"normalization": "nfkc", "lowercase": True}])
    ],
)
def test_all_kinds_give_the_librarys_ids_and_texts(run_node, kind, settings):
    texts = hard_texts(400)
    tokenizer = train_tokenizer(texts[:200], kind, TokenizerSettings(kind=kind, vocab_size=6000, **settings))
    assert_equal_in_javascript(run_node, Backend.from_str(tokenizer.to_bytes().decode()), texts)


def test_byte_level_pieces_of_pretrained_models(run_node):
    """GPT-2's, and those of Llama 3 and Qwen, which split by an expression of their own."""
    texts = hard_texts(300)
    for pattern in (None, *(each for each in PRETRAINED_REGEXES if each.startswith("(?i:"))):
        backend = Backend(models.BPE())
        level = pre_tokenizers.ByteLevel(add_prefix_space=pattern is None, use_regex=pattern is None)
        split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
        backend.pre_tokenizer = pre_tokenizers.Sequence([*split, level])
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
        backend.train_from_iterator([*texts, "we'RE I'm it'ſ don't 12345"], trainer)
        assert_equal_in_javascript(run_node, backend, [*texts, "I'M he'ſ it'S 1234567 \r\n\n a"])


@pytest.mark.parametrize("side", ["merged_with_next", "merged_with_previous"])
def test_pieces_of_sentencepiece(run_node, side):
    """With bytes for what is unknown, and spaces that are stripped and merged."""
    texts = hard_texts(300)
    pieces = sorted({text[place : place + 2] for text in texts[:150] for place in range(0, len(text), 3)})
    vocabulary = [("<unk>", 0.0), *((piece.replace(" ", "▁"), -5.0 - len(piece) / 7) for piece in pieces)]
    vocabulary += [(f"<0x{byte:02X}>", -30.0) for byte in range(256)]
    backend = Backend(models.Unigram(vocabulary, 0, byte_fallback=True))
    replace = normalizers.Replace
    strip, merge = replace(Regex(SPACES_AROUND), ""), replace(Regex(SPACES), " ")
    backend.normalizer = normalizers.Sequence([strip, merge, normalizers.Prepend("▁"), replace(" ", "▁")])
    spelled = pre_tokenizers.Split(Regex(BYTE_SPELLED), "merged_with_next")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("▁", side), spelled])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    assert_equal_in_javascript(run_node, backend, texts)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
def test_a_tokeniser_of_sentencepiece_itself(run_node, tmp_path, rule):
    """Its normalisation table works by graphemes."""
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [
        *hard_texts(400),
        "a\r\nb",
        "\u06001 \u0600",
        "e\u0301e\u0302\u0301 ͅα ﷺ ｶﾞ ㌀ Ǻ",
        "x\u200d\u00adz",
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.replace("\n", " ") for text in texts if text.strip()),
        model_prefix=str(tmp_path / "pieces"),
        vocab_size=6000,
        hard_vocab_limit=False,
        character_coverage=0.98,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    backend = Backend.from_str(json.dumps(from_sentencepiece(tmp_path / "pieces.model")))
    assert_equal_in_javascript(run_node, backend, texts)
    pieces = [piece for piece, _ in from_sentencepiece(tmp_path / "pieces.model")["model"]["vocab"][3:]]
    # as of Marian, whose vocabulary has pieces of the other side
    vocabulary = {
        piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces[::2], "▁aЖ", "Ж", ">>x<<"])
    }
    of_two = Backend.from_str(json.dumps(from_sentencepiece(tmp_path / "pieces.model", vocabulary)))
    assert of_two.decode([len(vocabulary) - 3, len(vocabulary) - 2]) == "aЖЖ"
    assert_equal_in_javascript(run_node, of_two, [*texts, "aЖ Ж"])


def test_bytes_for_what_a_bpe_vocabulary_lacks(run_node):
    texts = hard_texts(200)
    backend = Backend(models.BPE())
    backend.train_from_iterator(texts[:60], trainers.BpeTrainer(vocab_size=700, show_progress=False))
    file = json.loads(backend.to_str())
    vocabulary, merges = file["model"]["vocab"], [tuple(each) for each in file["model"]["merges"]]
    for piece in ("<unk>", *(f"<0x{byte:02X}>" for byte in range(256))):
        vocabulary.setdefault(piece, len(vocabulary))
    for settings in ({"byte_fallback": True}, {"fuse_unk": True}, {"ignore_merges": True}, {}):
        backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>", **settings))
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        assert_equal_in_javascript(run_node, backend, texts)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", normalizers.StripAccents()),
        ("pre_tokenizer", pre_tokenizers.Metaspace()),
        ("pre_tokenizer", pre_tokenizers.Split(" ", "contiguous")),
        ("decoder", decoders.WordPiece()),
    ],
)
def test_a_part_that_is_not_read_is_refused_by_name(run_node, part, value):
    backend = Backend(models.BPE())
    setattr(backend, part, value)
    file = json.loads(backend.to_str())
    with pytest.raises(NotExpressible, match="a web page cannot compute"):
        refuse_unread([file])
    module = 'import { Tokenizer } from "./tokenizer.js";\n'
    module += "let why; try { new Tokenizer(GIVEN, {}); } catch (error) { why = error.message; }\n"
    assert "is not supported" in run_node(module + "console.log(JSON.stringify(why));", file)


def test_a_token_that_a_text_may_spell_is_refused():
    backend = Backend(models.BPE())
    backend.add_tokens(["<tool>"])
    with pytest.raises(NotExpressible, match=r"added_tokens = '<tool>'"):
        refuse_unread([json.loads(backend.to_str())])


def test_a_class_of_characters_is_written_as_ranges(run_node):
    points = {0, 1, 2, 40, 0x1F600, 0x1F601, 0x10FFFF}
    module = """import { classSource } from "./characters.js";
const pattern = new RegExp(classSource(GIVEN), "u");
const all = Array.from({ length: 0x110000 }, (_, point) => point);
console.log(JSON.stringify(all.filter((point) => pattern.test(String.fromCodePoint(point)))));"""
    assert set(run_node(module, as_text(points))) == points
    assert run_node(module, "") == []


def test_the_classes_of_characters_are_those_of_the_library():
    assert len(as_text(matched(r"\p{L}")).split()) > 600
    assert {ord("A"), ord("É"), 0x1E9E} <= changed(normalizers.Lowercase())
    assert ord("a") not in changed(normalizers.Lowercase())
    assert {"Aa", "ẞß", "İi\u0307", "\ua7dc\u019b"} <= {*lowercase().split(" ")}
    found = normalized()
    assert {ord("a"), ord("é"), 0x301, 0xAC00, 0x1100, ord("①"), ord("ﬁ")} <= found
    assert not {ord("☃"), 0x1F600} & found


def test_characters_that_extend_a_grapheme_are_those_of_the_library():
    found = extending()
    assert {0x301, 0x323, 0x200C, 0x200D, 0x903, 0xFE0F, 0x1F3FB} <= found
    assert not {ord("a"), ord(" "), 0x200B, 0xAC00, 0x1F600, 0xE9, 9, 10, 13} & found
    assert {0x600, 0x6DD, 0x70F, 0xD4E} <= prepended()
    assert not {ord("a"), 9, 0x301, 0x200B} & prepended()


def test_half_a_character_is_refused(run_node):
    module = """import { Tokenizer } from "./tokenizer.js";
const tokenizer = new Tokenizer(GIVEN, {});
let why; try { tokenizer.encode("a\\ud800"); } catch (error) { why = error.message; }
console.log(JSON.stringify(why));"""
    assert "lone surrogate" in run_node(module, json.loads(Backend(models.BPE()).to_str()))
