"""Tokenisers: ids decode to the text, no text encodes to a special token, training is deterministic."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from regard.data.corpus import CorpusSettings, LinePolicy, Pair, open_corpus
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_file import SPECIALS
from regard.data.tokenizer_training import (
    TokenizerSettings,
    refuse_lost_spaces,
    train_tokenizer,
    train_tokenizers,
)
from regard.errors import DataError, FolderError, RecipeError

KINDS = ("bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram", "wordpunct")
BYTE_KINDS = ("bytes", "bytebpe")
LINES = [
    "Ein Mann hält eine Gitarre , während der andere zusieht .",
    "Zwei junge Männer sind im Freien, in der Nähe vieler Büsche.",
    "don't feed the t-shirt to 25 dogs! (or 3.14)",
    "ein  doppelter   Abstand, und ## <s> </s> <unk> <pad> ▁ ## am Ende",
    "a<s>b </s></s> <s> <s> <s> </s> </s> </s> x</s> y</s> z</s>",
    "naïve cafés: Ελλάδα, Россия, 日本語, e\u0301 \u00a0\u2028 \U0001f600",
] * 3
PAIRS = [
    Pair(source=one, target=other, line=line)
    for line, (one, other) in enumerate(zip(LINES, reversed(LINES), strict=True), start=1)
]
SYMBOLS = sorted(set("".join(LINES)))
WORDS = sorted({word for line in LINES for word in line.split(" ")})
TRAINED: dict[tuple, TokenizerPair] = {}

strings = st.text(st.characters(exclude_categories=["Cs"]))
marked = st.lists(st.sampled_from([*SPECIALS, "<", "s>", " ", "a", "▁", "##", "/s>"])).map("".join)


def trained(kind: str, **choices: object) -> Tokenizer:
    key = (kind, *choices.items())
    if key not in TRAINED:
        TRAINED[key] = train_tokenizers(PAIRS, TokenizerSettings(kind=kind, vocab_size=450, **choices))
    return TRAINED[key].source


# There and back


@pytest.mark.parametrize("kind", BYTE_KINDS)
@given(text=strings | marked)
@example(text="")
@example(text=" ")
@example(text="\0\r\n\ufeff\u2028\u202e e\u0301 \U0001f468\u200d\U0001f469 \ufffd")
def test_byte_level_tokenisers_give_back_every_string(kind, text):
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_id not in ids


@pytest.mark.parametrize("normalization", ["none", "nfc"])
@pytest.mark.parametrize("kind", ["bpe", "characters", "wordpiece", "unigram"])
@given(text=st.text(st.sampled_from(SYMBOLS), max_size=60) | marked)
@example(text="  ein  Mann ")
@example(text="<s></s><unk><pad>")
def test_the_other_kinds_give_back_every_string_of_known_symbols(kind, normalization, text):
    known = {"none": text, "nfc": unicodedata.normalize("NFC", text)}[normalization]
    tokenizer = trained(kind, normalization=normalization)
    ids = tokenizer.encode(text)
    if set(known) <= set("".join(tokenizer.words("".join(LINES)))):
        assert tokenizer.decode(ids) == known
        assert tokenizer.unk_id not in ids


@given(words=st.lists(st.sampled_from(WORDS)))
def test_words_give_back_every_string_of_known_words(words):
    text = " ".join(words)
    tokenizer = trained("words", normalization="none")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == len(words) if text else not tokenizer.encode(text)


def test_wordpunct_has_words_and_single_punctuation_wherever_spaces_are():
    tokenizer = trained("wordpunct")
    spaced = "don ' t feed the t - shirt to 25 dogs ! ( or 3 . 14 )"
    for text in ("don't feed the t-shirt to 25 dogs! (or 3.14)", f"  {spaced}\t", spaced.replace(" ", "\n ")):
        assert tokenizer.words(text) == spaced.split()
        assert tokenizer.decode(tokenizer.encode(text)) == spaced


def test_a_mark_is_part_of_the_emoji_before_it():
    tokenizer = train_tokenizer(["❤️ it"] * 2, "wordpunct", TokenizerSettings(kind="wordpunct"))
    assert tokenizer.words("I❤️\u20e3it, ❤!") == ["I", "❤️\u20e3", "it", ",", "❤", "!"]
    assert tokenizer.unk_id not in tokenizer.encode("❤️ it")


def test_wordpunct_of_a_target_is_refused_by_the_name_of_its_key():
    settings = TokenizerSettings(target_kind="wordpunct", joint=False)
    with pytest.raises(RecipeError, match=r"tokenizer\.target_kind = 'wordpunct'") as caught:
        refuse_lost_spaces(settings)
    assert "target_kind = 'bpe'" in caught.value.hint


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["words", "wordpunct"])
def test_words_that_are_rarer_than_min_count_are_unknown(kind, count):
    texts = ["ein Haus .", "ein Haus .", "kein Haus", "ein Zaun"]
    tokenizer = train_tokenizer(texts, kind, TokenizerSettings(kind=kind, min_count=count))
    occurring = {"ein": 3, "Haus": 3, ".": 2, "kein": 1, "Zaun": 1, "Mann": 0}
    known = {word for word in occurring if tokenizer.unk_id not in tokenizer.encode(word)}
    assert known == {word for word, times in occurring.items() if times >= count}


@pytest.mark.parametrize(
    ("kind", "unknown"),
    [
        ("bpe", "ein <unk>er Mann"),
        ("characters", "ein <unk>er Mann"),
        ("unigram", "ein <unk>er Mann"),
        ("wordpiece", "ein <unk> Mann"),
        ("words", "ein <unk> Mann"),
        ("wordpunct", "ein <unk> <unk> Mann"),
    ],
)
def test_what_is_unknown_becomes_unk(kind, unknown):
    tokenizer = trained(kind)
    ids = tokenizer.encode("ein ☃er Mann")
    assert tokenizer.unk_id in ids
    assert tokenizer.decode(ids) == unknown


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_dropped_in_decoding(kind):
    tokenizer = trained(kind)
    ids = tokenizer.encode("ein Mann")
    assert tokenizer.decode([tokenizer.bos_id, *ids, tokenizer.eos_id, tokenizer.pad_id]) == "ein Mann"


# Special tokens


@pytest.mark.parametrize("kind", KINDS)
@given(text=marked)
@example(text="<s></s>")
def test_no_text_encodes_to_a_special_token(kind, text):
    tokenizer = trained(kind)
    for again in (tokenizer, Tokenizer.from_bytes(tokenizer.to_bytes())):
        ids = set(again.encode(text))
        assert ids.isdisjoint({again.pad_id, again.bos_id, again.eos_id})
        assert again.unk_id not in ids or again.decode([again.unk_id]).strip() == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_are_counted(kind):
    tokenizer = trained(kind)
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.tokens(range(4)) == list(SPECIALS)
    vocabulary = tokenizer.vocabulary()
    assert sorted(vocabulary.values()) == list(range(tokenizer.vocab_size))
    assert tokenizer.vocab_size <= 450


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_read_unchanged_by_the_library_and_gives_equal_ids(kind, tmp_path):
    tokenizer = trained(kind)
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.to_bytes())
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    assert ours.to_bytes() == tokenizer.to_bytes()
    library.encode_special_tokens = True
    for text in (*LINES, "<s> neu </s>", ""):
        assert library.encode(text).ids == ours.encode(text) == tokenizer.encode(text)
        assert library.decode(library.encode(text).ids, skip_special_tokens=False) == ours.decode(
            ours.encode(text)
        )


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair_is_kept_in_a_folder(joint, tmp_path):
    pair = train_tokenizers(PAIRS, TokenizerSettings(kind="words", vocab_size=60, joint=joint))
    for name, content in pair.files().items():
        (tmp_path / name).write_bytes(content)
    again = TokenizerPair.load(tmp_path)
    assert again.joint is pair.joint is joint
    assert again.files() == pair.files()
    assert again.digest() == pair.digest()


def hostile(**changes: object) -> bytes:
    return json.dumps({**json.loads(trained("bpe").to_bytes()), **changes}).encode()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"[]", id="not an object"),
        pytest.param(b"{}", id="nothing in it"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(hostile(model={"type": "BPE"}), id="no vocabulary"),
        pytest.param(
            hostile(
                model={
                    "type": "WordLevel",
                    "vocab": dict(zip(SPECIALS, (0, 1, 2, 9), strict=True)),
                    "unk_token": "<unk>",
                }
            ),
            id="ids with gaps",
        ),
        pytest.param(hostile(model={"type": "Other"}), id="another model"),
        pytest.param(hostile(model=[]), id="a model that is a list"),
        pytest.param(hostile(added_tokens=[]), id="no special tokens"),
        pytest.param(hostile(truncation={"max_length": 2}), id="truncation"),
        pytest.param(hostile(pre_tokenizer={"type": "Whitespace"}), id="another splitter"),
        pytest.param(
            hostile(
                pre_tokenizer={
                    "type": "Split",
                    "pattern": {"Regex": "(a+)+b"},
                    "behavior": "Isolated",
                    "invert": False,
                }
            ),
            id="a costly expression",
        ),
        pytest.param(trained("bpe").to_bytes()[:-100], id="cut short"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused_in_one_line(content, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(FolderError) as caught:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FolderError, match=r"tokenizer\.json: No such file"):
        TokenizerPair.load(tmp_path)


def test_a_panic_in_the_library_becomes_an_error():
    backend = tokenizers.Tokenizer.from_str(trained("bpe").to_bytes().decode())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(r"(?:a|a|a)*+\Kb|(x+x+)+y"), "isolated"
    )
    with pytest.raises(DataError, match="the tokenizers library could not encode this text"):
        Tokenizer(backend).encode("x" * 40)


def test_a_lone_surrogate_is_named_by_its_place():
    with pytest.raises(DataError, match="text 2 has a lone surrogate at character 3"):
        trained("bpe").encode_batch(["fine", "ab\ud800c"])


def test_a_byte_of_an_argument_that_is_not_utf_8_is_named():
    text = b"caf\xe9".decode("utf-8", "surrogateescape")  # as Python reads arguments
    with pytest.raises(DataError, match="the text is not UTF-8: it has the byte 0xe9") as caught:
        trained("bpe").encode(text)
    assert "locale" in caught.value.hint


# Training


@pytest.mark.parametrize("kind", KINDS)
def test_vocab_size_is_an_upper_bound_that_counts_the_special_tokens(kind):
    size = 400 if kind in BYTE_KINDS else 180
    tokenizer = train_tokenizers(PAIRS, TokenizerSettings(kind=kind, vocab_size=size)).source
    assert tokenizer.vocab_size <= size
    if kind in ("bpe", "bytebpe", "wordpiece"):
        assert tokenizer.vocab_size > size - 5  # but for merges that would spell a special token


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "bytebpe"])
def test_a_vocabulary_smaller_than_its_symbols_is_refused(kind):
    with pytest.raises(RecipeError, match="vocab_size = 20 is less than the") as caught:
        train_tokenizers(PAIRS, TokenizerSettings(kind=kind, vocab_size=20))
    assert caught.value.hint


def test_a_joint_vocabulary_is_learned_from_both_sides():
    pairs = [Pair(source="links", target="rechts", line=1)]
    both = train_tokenizers(pairs, TokenizerSettings(kind="words"))
    assert both.source is both.target
    assert {" links", " rechts"} < both.source.vocabulary().keys()
    apart = train_tokenizers(pairs, TokenizerSettings(kind="characters", target_kind="words", joint=False))
    assert apart.source.encode("links") == [apart.source.vocabulary()[symbol] for symbol in "links"]
    assert apart.target.tokens(apart.target.encode("rechts links")) == [" rechts", "<unk>"]


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case_and_normal_forms_are_settings(kind):
    tokenizer = trained(kind, lowercase=True, normalization="nfkc")
    assert tokenizer.encode("EIN ﬁ cafe\u0301") == tokenizer.encode("ein fi café")
    assert tokenizer.decode(tokenizer.encode("EIN Mann")) == "ein mann"


@pytest.mark.parametrize("kind", ["bpe", "bytebpe", "unigram"])
def test_digits_are_single_pieces_if_requested(kind, tmp_path):
    lines = [f"in 1999 he paid 1999 dollars to B2B-19 at 19:{minute}" for minute in range(10, 60)]
    pairs = [Pair(source=text, target=text, line=line) for line, text in enumerate(lines, start=1)]
    settings = TokenizerSettings(kind=kind, vocab_size=450, split_digits=True)
    tokenizer = train_tokenizers(pairs, settings).source
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.to_bytes())
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert max(sum(symbol.isdigit() for symbol in piece) for piece in one.vocabulary()) == 1
        assert one.decode(one.encode("1999 B2B-19 dollars")) == "1999 B2B-19 dollars"
    whole = train_tokenizers(pairs, TokenizerSettings(kind=kind, vocab_size=450)).source
    assert max(sum(symbol.isdigit() for symbol in piece) for piece in whole.vocabulary()) > 1


def test_training_gives_the_same_bytes_in_another_process():
    program = """if True:
        import hashlib, runpy, sys
        test = runpy.run_path(sys.argv[1])
        for kind in test["KINDS"]:
            print(hashlib.sha256(test["trained"](kind).to_bytes()).hexdigest())
    """
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": parallel},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed, parallel in (("1", "true"), ("2", "false"))
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == len(KINDS)


@pytest.mark.parametrize(
    "choices",
    [
        {"vocab_size": 4},
        {"kind": "characters", "target_kind": "words"},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"dropout": 0.1, "kind": "unigram"},
        {"copies": 0},
        {"split_digits": True, "kind": "words"},
        {"split_digits": True, "kind": "wordpunct"},
        {"dropout": 0.1, "kind": "wordpunct"},
        {"min_count": 0, "kind": "words"},
        {"min_count": 2},
    ],
)
def test_settings_that_cannot_work_are_refused(choices):
    with pytest.raises(RecipeError) as caught:
        TokenizerSettings(**choices)
    assert caught.value.hint


@pytest.mark.skipif(not Path(os.environ.get("REGARD_DATA", "/nowhere")).is_dir(), reason="needs REGARD_DATA")
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_unseen_captions_come_back_exactly(kind):
    names = {"source": "multi30k:val.en", "target": "multi30k:val.de"}
    corpus = open_corpus(CorpusSettings(**names), LinePolicy(), Path())
    tokenizer = train_tokenizers(corpus, TokenizerSettings(kind=kind, vocab_size=2000)).source
    names = {"source": "multi30k:test_2016_flickr.en", "target": "multi30k:test_2016_flickr.de"}
    texts = [pair.target for pair in open_corpus(CorpusSettings(**names), LinePolicy(), Path())]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text) or tokenizer.unk_id in ids


@pytest.mark.parametrize("kind", KINDS)
def test_each_id_has_the_characters_that_it_stands_for(kind):
    text = "the red dog, the cat ☃ runs"
    tokenizer = train_tokenizer([text, "a dog"], kind, TokenizerSettings(kind=kind, vocab_size=300))
    spans = tokenizer.spans(text)
    assert len(spans) == len(tokenizer.encode(text))
    assert spans == sorted(spans)
    covered = {place for begin, end in spans for place in range(begin, end)}
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered
