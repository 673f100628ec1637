"""A tokeniser as a file of SentencePiece: the same pieces, or a refusal by name."""

import functools
import itertools
import json
import random

import pytest

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_extension import ExtensionSettings, extend_tokenizer
from regard.data.tokenizer_file import SPECIALS, UNMATCHED
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.exports.ctranslate2_folder import pieces
from regard.exports.refusal import NotExpressible
from regard.exports.sentencepiece_file import engine_pieces, sentencepiece_file
from tests.parity.test_sentencepiece_flags import FLAGS, ours_of, texts, trained

sentencepiece = pytest.importorskip("sentencepiece")
CORPUS = [
    "the dogs' toys aren't the dog's, they're ours", "L'homme qu'il a vu n'est pas d'ici, dit-il.",
    "Well-known café: it's 90's music, \"rock'n'roll\"!", "ä ö ü ß <s> and </s> - 12, 345.6 (x)",
    "the cat sat on the mat' and the cats' mats", "aujourd’hui c’est l’été",
] * 4  # fmt: skip
TEXTS = [
    "", " ", "  two  spaces ", "the dogs' toys", "it's the 90's", "('the cat's)", "'tis 'the", "--the-cat--",
    "cafe\u0301 über", "他们喜欢 dogs。", "😀😀 cat", "<s> </s> <pad> <unk>", "//x//", "a\tb",
    "don''t", "x's'", "'t",
]  # fmt: skip


@functools.cache
def made(kind, **settings) -> Tokenizer:
    size = 280 if kind.startswith("byte") else 180
    return train_tokenizer(CORPUS, kind, TokenizerSettings(kind=kind, vocab_size=size, **settings))


@functools.cache
def file_of(tokenizer):
    """Its file, whose rules take seconds to write."""
    return sentencepiece_file(tokenizer)


def differing(tokenizer, given):
    """The texts whose pieces have other ids."""
    file = file_of(tokenizer)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=file.content)
    names = engine_pieces(tokenizer, pieces(tokenizer))
    numbers = {name: number for number, name in enumerate(names)} | file.variants
    return [
        text
        for text in given
        if tokenizer.encode(text)
        != [numbers.get(piece, tokenizer.unk_id) for piece in theirs.encode(text, out_type=str)]
    ]


def random_texts(count, seed=3):
    """Parts of the corpus and rare characters, put together at random; a letter is the last one."""
    draw = random.Random(seed)
    parts = [*'abths (.,"19éß喜。/<>', "'", "’", "-", "'s", "n't", "e\u0301", "the", " dog", "\t", "'"]
    return ["".join(draw.choices(parts, k=draw.randint(1, 12))) + "a" for _ in range(count)]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bpe", {"split_digits": True}),
        pytest.param("bpe", {}, marks=pytest.mark.nightly),
        pytest.param("bpe", {"lowercase": True, "normalization": "nfkc"}, marks=pytest.mark.nightly),
        pytest.param("bpe", {"normalization": "none"}, marks=pytest.mark.nightly),
        ("characters", {}),
    ],
)
def test_texts_have_the_same_pieces(kind, settings):
    tokenizer = made(kind, **settings)
    assert differing(tokenizer, [*CORPUS, *TEXTS, *random_texts(400)]) == []


def test_unigram_texts_have_the_same_pieces():
    """Unknown neighbours are one piece there, across words too."""
    unknown_neighbours = ("他们喜欢 dogs。", "//x//", "<s> </s> <pad> <unk>", "a\tb")
    assert (
        differing(made("unigram"), [*CORPUS, *(text for text in TEXTS if text not in unknown_neighbours)])
        == []
    )


def test_an_apostrophe_outside_a_word_is_no_part_of_a_piece_with_letters():
    """So that the tests above could fail: such pieces exist, and plain SentencePiece finds them."""
    tokenizer = made("bpe", split_digits=True)
    joined = [piece for piece in tokenizer.vocabulary() if "'" in piece and piece[-1].isalpha()]
    assert "'s" in joined
    assert tokenizer.tokens(tokenizer.encode("('s"))[-1] == "s"
    assert file_of(tokenizer).variants


@pytest.mark.parametrize("kind", ["words", "wordpunct", "wordpiece", "bytes", "bytebpe"])
def test_other_kinds_are_refused_by_name(kind):
    with pytest.raises(NotExpressible) as error:
        sentencepiece_file(made(kind))
    assert (error.value.setting, error.value.value) == ("kind", kind)


@pytest.mark.parametrize(
    "kind", ["bpe", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("characters", "unigram"))]
)
def test_an_extended_tokeniser_has_the_same_pieces(kind):
    new = ["kočka leží na domě", "starý dům, kočka"] * 3
    extended = extend_tokenizer(made(kind), ExtensionSettings(size=30), new)
    assert not differing(extended, [*new, "kočky domů", *CORPUS])


def test_named_tokens_of_an_extension_are_refused():
    with pytest.raises(NotExpressible, match=r"tokenizer.extension.tokens = '>>cs<<'"):
        sentencepiece_file(extend_tokenizer(made("bpe"), ExtensionSettings(tokens=(">>cs<<",)), []))


def test_merges_that_sentencepiece_does_not_have_are_refused():
    """It would join "a" and "bc" too."""
    tokenizer = made("bpe")
    content = json.loads(tokenizer.to_bytes())
    content["model"]["vocab"] = {
        piece: number for number, piece in enumerate([*SPECIALS, *"abc", "bc", "ab", "abc"])
    }
    content["model"]["merges"] = [["b", "c"], ["a", "b"], ["ab", "c"]]
    altered = Tokenizer.from_bytes(json.dumps(content).encode())
    with pytest.raises(NotExpressible, match="merges"):
        sentencepiece_file(altered)
    content["model"]["merges"] = [["a", "b"], ["b", "c"], ["ab", "c"]]
    possible = Tokenizer.from_bytes(json.dumps(content).encode())
    assert differing(possible, ["abc", "bcabc", "abab", "cab", "bbcc"]) == []


# each flag by itself for every change, all together nightly
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(values, marks=() if sum(values) in (1, 3) else pytest.mark.nightly)
        for values in itertools.product(*FLAGS.values())
    ],
    ids=str,
)
def test_what_was_read_from_sentencepiece_is_written_as_it_was(values, tmp_path):
    tokenizer = ours_of(trained(tmp_path, **dict(zip(FLAGS, values, strict=True))))
    assert differing(tokenizer, texts()) == []


@pytest.mark.parametrize("old", [False, True])
def test_pieces_of_a_vocabulary_that_the_file_lacked_have_their_own_names(old, tmp_path):
    """Older folders have them after a space alone."""
    path = trained(tmp_path)
    known = [piece for piece, _ in from_sentencepiece(path)["model"]["vocab"][3:]]
    vocabulary = {piece: number for number, piece in enumerate(["</s>", "<unk>", *known, "▁Katze", "ö", "Ж"])}
    content = from_sentencepiece(path, vocabulary)
    if old:
        scored = content["model"]["vocab"]
        content["model"]["vocab"] = [[piece.replace(UNMATCHED, " "), score] for piece, score in scored]
        del content["decoder"]["decoders"][0]
    marks = SpecialTokens(pad=0, unk=1, bos=0, eos=0, vocab_size=len(vocabulary))
    tokenizer = Tokenizer.from_bytes(json.dumps(with_special_tokens(content, marks)).encode())
    assert engine_pieces(tokenizer, pieces(tokenizer)) == [*vocabulary]
    assert differing(tokenizer, [*texts(), "cat ö Ж", "Katze"]) == []
