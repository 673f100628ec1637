"""Extended tokenisers: old ids and old segmentations stay, new tokens come after them."""

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from regard.data.noise import SampledTokenizer
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_extension import ExtensionSettings, extend_tokenizer, old_pieces
from regard.data.tokenizer_file import tokenizer_kind
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import FolderError, RecipeError

KINDS = ("bpe", "bytebpe", "bytes", "characters", "words", "wordpiece", "unigram", "wordpunct")
WITHOUT_KEEP = ("bpe", "characters", "words", "wordpiece", "unigram", "wordpunct")
WITH_KEEP = ("bpe", "bytebpe", "wordpiece", "unigram")
OLD = ["the old house in the old town", "a mouse and a house, and 3 cats", "nine old cats sit in the sun"] * 3
NEW = ["kočka leží na domě", "kočka a kočky: děti v domě", "starý dům, starý strom, kočka leží"] * 3
OLD_WORDS = sorted({word for line in OLD for word in line.split()})
TAG = ">>cs<<"
TRAINED = {kind: train_tokenizer(OLD, kind, TokenizerSettings(kind=kind, vocab_size=320)) for kind in KINDS}
old_texts = st.lists(st.sampled_from([*OLD_WORDS, "hand", "cat", "sun,", "  "])).map(" ".join)


def extended(kind, *, keep=False, size=60, tokens=(TAG,)):
    settings = ExtensionSettings(size=size, tokens=tokens, keep=("old.txt",) if keep else ())
    return extend_tokenizer(TRAINED[kind], settings, [f"{TAG} {line}" for line in NEW], OLD if keep else ())


EXTENDED = {kind: extended(kind) for kind in WITHOUT_KEEP}
KEPT = {kind: extended(kind, keep=True) for kind in WITH_KEEP}
ALL = [*EXTENDED.items(), *KEPT.items(), ("bytes", extended("bytes", size=0))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_recognised(kind):
    assert tokenizer_kind(json.loads(TRAINED[kind].to_bytes())) == kind


@pytest.mark.parametrize(("kind", "new"), ALL)
def test_old_tokens_keep_their_ids_and_new_ones_follow(kind, new):
    before, after = TRAINED[kind].vocabulary(), new.vocabulary()
    assert before.items() <= after.items()
    assert sorted(after.values()) == list(range(new.vocab_size))
    assert (new.pad_id, new.unk_id, new.bos_id, new.eos_id) == (0, 1, 2, 3)
    assert new.added_tokens == {TAG: TRAINED[kind].vocab_size}
    assert new.vocab_size <= TRAINED[kind].vocab_size + 61


@pytest.mark.parametrize("kind", WITHOUT_KEEP)
@given(text=old_texts)
def test_a_text_of_known_letters_is_split_as_before(kind, text):
    old = TRAINED[kind].encode(text)
    if TRAINED[kind].unk_id not in old:
        assert EXTENDED[kind].encode(text) == old


@pytest.mark.parametrize("kind", WITH_KEEP)
@given(text=st.lists(st.sampled_from(OLD_WORDS)).map(" ".join))
def test_the_words_of_kept_texts_are_split_as_before(kind, text):
    assert KEPT[kind].encode(text) == TRAINED[kind].encode(text)


@pytest.mark.parametrize(("kind", "new"), ALL)
def test_new_text_is_known_and_comes_back(kind, new):
    for line in NEW:
        ids = new.encode(f"{TAG} {line}")
        assert new.unk_id not in ids
        spaced = " ".join(new.words(f"{TAG} {line}")) if kind == "wordpunct" else f"{TAG} {line}"
        assert new.decode(ids) == spaced
    if kind not in ("bytes", "characters"):
        assert sum(map(len, new.encode_batch(NEW))) < sum(map(len, TRAINED[kind].encode_batch(NEW))) or (
            TRAINED[kind].unk_id in TRAINED[kind].encode(NEW[0])
        )


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_frequent_new_words_are_few_pieces(kind):
    new = KEPT[kind]
    assert len(new.encode("kočka")) <= 2
    assert len(EXTENDED[kind].encode("kočka")) <= 3


@pytest.mark.parametrize(("kind", "new"), ALL)
def test_a_named_token_is_one_id_wherever_it_is_spelled(kind, new):
    number = new.added_tokens[TAG]
    spaced = [f"{TAG} the cat", TAG, f" {TAG} the", f"{TAG}the", f"a{TAG}{TAG} cat", f"the {TAG}  cats"]
    for text in spaced:
        assert new.encode(text).count(number) == text.count(TAG)
        assert [id for word in new.encode_words(text) for id in word] == new.encode(text)
    assert new.decode(new.encode(f"{TAG} the cats")) == f"{TAG} the cats"
    if kind != "words":  # to which a space without a word is unknown
        assert new.decode(new.encode(f"the {TAG} cats")) == f"the {TAG} cats"


@pytest.mark.parametrize(("kind", "new"), ALL)
def test_the_library_reads_the_same_from_the_file(kind, new, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(new.to_bytes())
    again, plain = (
        Tokenizer.load(tmp_path / "tokenizer.json"),
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
    )
    for text in (f"{TAG} {NEW[0]}", OLD[1], f"{OLD[0]} {TAG} {NEW[2]}"):
        assert again.encode(text) == new.encode(text) == plain.encode(text, add_special_tokens=False).ids


def test_bpe_dropout_leaves_a_named_token_whole_and_drops_new_merges():
    new = KEPT["bpe"]
    sampled = SampledTokenizer(new, 0.5, 1)
    ids = [sampled.encode(f"{TAG} {line}") for line in NEW]
    assert all(each[0] == new.added_tokens[TAG] and new.decode(each) for each in ids)
    assert sum(map(len, ids)) > sum(len(new.encode(f"{TAG} {line}")) for line in NEW)
    never = SampledTokenizer(new, 0.0, 1)
    assert [never.encode(line) for line in [*NEW, *OLD]] == [new.encode(line) for line in [*NEW, *OLD]]


@pytest.mark.parametrize("kind", WITHOUT_KEEP)
def test_a_tokeniser_can_be_extended_again(kind):
    once = EXTENDED[kind]
    settings = ExtensionSettings(size=10, tokens=(">>el<<",))
    twice = extend_tokenizer(once, settings, ["καλημέρα σας"] * 3)
    assert once.vocabulary().items() <= twice.vocabulary().items()
    assert sorted(twice.vocabulary().values()) == list(range(twice.vocab_size))
    for text in (f"{TAG} {NEW[0]}", OLD[0]):
        assert twice.encode(text) == once.encode(text)
    assert twice.encode(f">>el<<{TAG}") == [once.vocab_size, once.added_tokens[TAG]]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_the_old_pieces_of_a_new_token_spell_it_without_its_new_letters(kind):
    old, new = TRAINED[kind], EXTENDED[kind]
    known = set("".join(OLD)) | {" "}
    pieces = new.tokens(range(old.vocab_size, new.vocab_size))
    for piece, ids in zip(pieces, old_pieces(old, new), strict=True):
        assert old.unk_id not in ids
        if piece == TAG:
            assert ids == [id for id in old.encode(TAG) if id != old.unk_id]
            continue
        spelled = "".join(each.removeprefix("##") for each in old.tokens(ids))
        assert spelled == "".join(letter for letter in piece.removeprefix("##") if letter in known)


def test_what_cannot_be_extended_is_refused_by_name():
    with pytest.raises(RecipeError, match="a tokeniser of bytes encodes all texts"):
        extended("bytes")
    with pytest.raises(RecipeError, match="a byte-level tokeniser lacks no letter"):
        extended("bytebpe")
    for kind in ("characters", "words", "wordpunct"):
        with pytest.raises(RecipeError, match="keep is not needed"):
            extended(kind, keep=True)
    with pytest.raises(RecipeError, match="'>>cs<<' is a token already"):
        extend_tokenizer(EXTENDED["bpe"], ExtensionSettings(tokens=(TAG,)), [])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "nothing is new"),
        ({"size": -1}, "below 0"),
        ({"tokens": (TAG,), "keep": ("a",)}, "keep has no effect"),
        ({"tokens": ("two words",)}, "cannot be a new token"),
        ({"tokens": ("<pad>",)}, "cannot be a new token"),
        ({"tokens": (TAG, TAG)}, "cannot be a new token"),
        ({"tokens": ("",)}, "cannot be a new token"),
        ({"tokens": ("arde",)}, "within longer words"),
    ],
)
def test_settings_that_cannot_work_are_refused(choices, message):
    with pytest.raises(RecipeError, match=message):
        ExtensionSettings(**choices)


@pytest.mark.parametrize(
    "change",
    [{"id": 5}, {"content": "two words"}, {"normalized": True}, {"lstrip": True}, {"content": "<nothing>"}],
)
def test_a_file_with_another_added_token_is_refused(change):
    content = json.loads(EXTENDED["bpe"].to_bytes())
    content["added_tokens"][-1] |= change
    with pytest.raises(FolderError, match="is not a tokeniser of regard"):
        Tokenizer.from_bytes(json.dumps(content).encode())
