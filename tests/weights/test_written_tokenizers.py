"""The tokeniser that is written for transformers puts the special tokens of its family around texts."""

import json

import pytest
import tokenizers

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.huggingface_tokenizer import write_tokenizers

TOKENIZER = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))
SIZE = TOKENIZER.vocab_size
SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 8}
ENCODER = {"vocab_size": SIZE, "head": "none", "num_layers": 1, **SMALL}
DECODER = DecoderOnlyConfig(vocab_size=SIZE, num_layers=1, **SMALL)
BOTH = EncoderDecoderConfig(
    src_vocab_size=SIZE, tgt_vocab_size=SIZE, num_encoder_layers=1, num_decoder_layers=1, **SMALL
)
PIECES = {number: piece for piece, number in TOKENIZER.vocabulary().items()}
BOS, EOS = PIECES[TOKENIZER.bos_id], PIECES[TOKENIZER.eos_id]


@pytest.mark.parametrize(
    ("config", "family", "adds_bos", "single", "pair", "second"),
    [
        (EncoderOnlyConfig(num_token_types=2, **ENCODER), "bert", False, "<a>", "<a>b>", 1),
        (EncoderOnlyConfig(num_token_types=1, **ENCODER), "distilbert", False, "<a>", "<a>b>", 0),
        (EncoderOnlyConfig(num_token_types=1, **ENCODER), "roberta", False, "<a>", "<a>>b>", 0),
        (DECODER, "gpt2", False, "a", "ab", 1),  # nothing is added: numbered by the library
        (DECODER, "llama", True, "<a", "<a<b", 0),
        (BOTH, "t5", False, "a>", "a>b>", 0),
        (BOTH, "bart", False, "a>", "a>>b>", 0),
    ],
    ids=["bert", "distilbert", "roberta", "gpt2", "llama", "t5", "bart"],
)
def test_a_text_and_two_texts_have_the_special_tokens_of_the_family(
    config, family, adds_bos, single, pair, second
):
    given = {"adds_bos": True} if adds_bos else {}  # none is added unless it is asked for
    files = write_tokenizers(TokenizerPair(TOKENIZER, TOKENIZER), config, family, **given)
    assert sorted(files) == ["tokenizer.json", "tokenizer_config.json"]
    backend = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
    signs = {BOS: "<", EOS: ">"}

    def written(*texts):
        found = backend.encode(*texts)
        return "".join(signs.get(token, token.strip()) for token in found.tokens), found.type_ids

    assert written("a") == (single, [0] * len(single))
    text, types = written("a", "b")
    assert text == pair
    assert types == [0] * pair.index("b") + [second] * (len(pair) - pair.index("b"))


def test_the_names_of_special_tokens_are_those_of_the_kind_of_model():
    def settings(config):
        files = write_tokenizers(TokenizerPair(TOKENIZER, TOKENIZER), config, "any")
        return json.loads(files["tokenizer_config.json"])

    encoder = settings(EncoderOnlyConfig(num_token_types=2, **ENCODER))
    assert (encoder["cls_token"], encoder["sep_token"]) == (BOS, EOS)
    assert encoder["model_input_names"] == ["input_ids", "token_type_ids", "attention_mask"]
    assert "model_input_names" not in settings(EncoderOnlyConfig(num_token_types=1, **ENCODER))
    decoder = settings(DECODER)
    assert (decoder["bos_token"], decoder["eos_token"]) == (BOS, EOS)
    assert decoder["pad_token"] == PIECES[TOKENIZER.pad_id]
    assert "cls_token" not in decoder


def test_a_target_tokeniser_of_its_own_is_a_file_of_its_own():
    other = train_tokenizer(["c d"] * 3, "words", TokenizerSettings(kind="words"))
    files = write_tokenizers(TokenizerPair(TOKENIZER, other), BOTH, "marian")
    assert sorted(files) == ["target_tokenizer.json", "tokenizer.json", "tokenizer_config.json"]
    backend = tokenizers.Tokenizer.from_str(files["target_tokenizer.json"].decode())
    assert backend.encode("c d").tokens[:2] == [" c", " d"]


def test_the_first_token_of_a_translation_is_in_config_json_unless_texts_begin_with_one():
    """bos is not a name of the padding or the end with which a decoder may begin."""
    content = json.loads(TOKENIZER.to_bytes())
    ids = {"pad": TOKENIZER.pad_id, "unk": TOKENIZER.unk_id, "eos": TOKENIZER.eos_id, "vocab_size": SIZE}

    def named(config, bos, prefix=()):
        special = SpecialTokens(bos=bos, prefix=prefix, **ids)
        tokenizer = Tokenizer.from_bytes(json.dumps(with_special_tokens(content, special)).encode())
        files = write_tokenizers(TokenizerPair(tokenizer, tokenizer), config, "any")
        return json.loads(files["tokenizer_config.json"]).get("bos_token")

    assert named(BOTH, TOKENIZER.bos_id) == BOS
    assert named(BOTH, TOKENIZER.bos_id, prefix=(4,)) == PIECES[4]
    for bos in (TOKENIZER.pad_id, TOKENIZER.eos_id):
        assert named(BOTH, bos) is None
        assert named(DECODER, bos) == PIECES[bos]
