"""Languages of Marian: a text may spell their tokens in transformers, and not here."""

import json

import pytest
import tokenizers

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_file import UNMATCHED
from regard.data.tokenizer_pretrained import SpecialTokens, new_file, with_special_tokens
from regard.data.tokenizer_sentencepiece import UNIGRAM, SentencePiece
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.family import ConvertedConfig
from regard.weights.families.marian import Marian
from regard.weights.huggingface_tokenizer import read_tokenizers, write_tokenizers
from regard.weights.marian_languages import language_tokens

WORDS = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))
PIECES = ["</s>", "<unk>", "▁Hi", ".", ">>fra<<", ">>zh_hans<<", "<pad>"]
TRANSLATOR = EncoderDecoderConfig(
    src_vocab_size=len(PIECES),
    tgt_vocab_size=len(PIECES),
    d_model=8,
    num_heads=2,
    d_ff=8,
    norm_position="post",
    tied="all",
)


def of_languages(mark: str, kind: str) -> Tokenizer:
    """Marian's tokeniser, with `mark` before pieces that no text matches."""
    flags = SentencePiece(
        pieces=[], charsmap="", dummy=True, strip=True, suffix=False, byte_fallback=False, kind=UNIGRAM
    )
    written = [mark + piece if piece.startswith(">>") else piece for piece in PIECES]
    model = {"type": "Unigram", "unk_id": 1, "vocab": [[piece, -1.0] for piece in written]}
    if kind == "BPE":
        # pieces of one character, which need no merges
        numbers = {piece.replace("▁Hi", "H"): number for number, piece in enumerate(written)}
        model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "vocab": numbers, "merges": []}
    parts = {
        "normalizer": flags.normalizer(),
        "decoder": flags.decoder(unmatched=mark == UNMATCHED),
        "pre_tokenizer": None,
    }
    special = SpecialTokens(pad=6, unk=1, bos=6, eos=0, vocab_size=len(PIECES))
    return Tokenizer.from_bytes(
        json.dumps(with_special_tokens(new_file(model=model, **parts), special)).encode()
    )


@pytest.mark.parametrize("mark", [UNMATCHED, " "], ids=["mark", "older"])
@pytest.mark.parametrize("kind", ["Unigram", "BPE"])
def test_a_language_that_a_text_begins_with_is_its_token_for_transformers(mark, kind):
    tokenizer = of_languages(mark, kind)
    other = of_languages(mark, kind)
    assert {4, 5}.isdisjoint(tokenizer.encode(">>fra<< Hi."))
    files = write_tokenizers(TokenizerPair(tokenizer, other), TRANSLATOR, "marian")
    for name in ("tokenizer.json", "target_tokenizer.json"):
        backend = tokenizers.Tokenizer.from_str(files[name].decode())
        rest = [2, 3, 0] if kind == "Unigram" else [1, 2, 1, 3, 0]
        assert backend.encode(">>fra<< Hi.").ids == [4, *rest]
        assert backend.encode(">>zh_hans<< Hi.").ids == [5, *rest]
        assert backend.get_vocab_size() == len(PIECES)
        added = backend.get_added_tokens_decoder()
        assert {number for number, token in added.items() if token.special} == {4, 5}
        flags = ("single_word", "lstrip", "rstrip", "normalized")  # a token stands for its own letters alone
        assert not any(getattr(added[number], flag) for number in (4, 5) for flag in flags)
    assert language_tokens(tokenizer) == [">>fra<<", ">>zh_hans<<"]
    assert language_tokens(WORDS) == []


@pytest.mark.parametrize("mark", [UNMATCHED, " "], ids=["mark", "older"])
def test_a_folder_of_transformers_has_its_languages_again(tmp_path, mark):
    tokenizer = of_languages(mark, "Unigram")
    for name, content in write_tokenizers(TokenizerPair(tokenizer, tokenizer), TRANSLATOR, "marian").items():
        (tmp_path / name).write_bytes(content)
    again = read_tokenizers(tmp_path, Marian(), ConvertedConfig(config=TRANSLATOR, pad_id=6, eos_id=0)).source
    assert language_tokens(again) == language_tokens(tokenizer)
    for text in (">>fra<< Hi.", "Hi.", "?"):
        assert again.encode(text) == tokenizer.encode(text)


def test_a_target_tokeniser_of_its_own_is_read_again(tmp_path):
    source = of_languages(UNMATCHED, "Unigram")
    target = Tokenizer.from_bytes(source.to_bytes().replace(b"Hi", b"Ho"))
    for name, content in write_tokenizers(TokenizerPair(source, target), TRANSLATOR, "marian").items():
        (tmp_path / name).write_bytes(content)
    again = read_tokenizers(tmp_path, Marian(), ConvertedConfig(config=TRANSLATOR, pad_id=6, eos_id=0))
    ids = range(len(PIECES))
    assert again.target.decode(ids) == target.decode(ids) != source.decode(ids)
    assert again.source.decode(ids) == source.decode(ids)
    assert again.source.encode("Hi.") == source.encode("Hi.") != again.target.encode("Hi.")
