"""Converts the tokeniser of a Hugging Face folder to regard's, and back."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data import tokenizer_pretrained
from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_pretrained import SpecialTokens, template_text, template_token
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.errors import DataError, FolderError, UserError
from regard.models.config import ModelConfig
from regard.weights.families.exported import MODEL_TYPE as EXPORTED
from regard.weights.families.family import ConvertedConfig, Family
from regard.weights.families.sentence import lowers_case
from regard.weights.huggingface_files import read_table
from regard.weights.marian_languages import language_tokens, with_languages, without_languages
from regard.weights.strict_json import json_bytes

OTHER_MODEL_HINT = "the tokeniser belongs to another model: copy the folder again"
MAX_EXTRA_IDS = 100_000  # sentinel tokens of T5, which has 100
TARGET = "target_tokenizer.json"  # of models that regard wrote; transformers does not read it
HF_NAMES = {  # our special tokens -> their names in transformers; the first that exists counts
    "pad": ("pad_token", "eos_token"),
    "unk": ("unk_token", "eos_token"),
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "mask": ("mask_token",),
}


def read_tokenizers(folder: Path, family: Family, converted: ConvertedConfig) -> TokenizerPair | None:
    """Reads the tokenisers of a Hugging Face folder; None if it has none.

    Raises:
        FolderError: a file is damaged, or belongs to another model.
    """
    try:
        if os.path.isfile(folder / "source.spm") and not os.path.isfile(folder / "tokenizer.json"):
            return _marian(folder, family, converted)
        content = _content(folder, family)
        if content is None:
            return None
        source = _from_content(content, folder, family, converted, is_source=True)
        if os.path.isfile(folder / TARGET):
            target = _from_content(read_table(folder / TARGET), folder, family, converted, is_source=False)
            return TokenizerPair(source, target)
        return _in_own_languages(source, folder)
    except DataError as error:
        raise FolderError(f"{folder}: {error.message}", error.hint) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FolderError(f"{folder}: its tokeniser is damaged ({error})", OTHER_MODEL_HINT) from error


def _from_content(
    content: dict[str, Any], folder: Path, family: Family, converted: ConvertedConfig, *, is_source: bool
) -> Tokenizer:
    """The tokeniser of a tokenizer.json."""
    if family.name == EXPORTED and (own := _trained_by_regard(content)) is not None:
        return own
    content = without_languages(content)
    if lowers_case(folder):
        content = tokenizer_pretrained.with_lowercase(content)
    vocabulary = _vocabulary(content)
    languages = _languages(content, vocabulary, folder, family)
    return _tokenizer(content, vocabulary, folder, family, converted, languages, is_source=is_source)


def _trained_by_regard(content: Mapping[str, Any]) -> Tokenizer | None:
    """The tokeniser of an exported model, if regard trained it: its file has no template then."""
    plain = {**content, "truncation": None, "padding": None, "post_processor": None}
    try:
        return Tokenizer.from_bytes(json.dumps(plain).encode(), "tokenizer.json")
    except (UserError, LookupError, TypeError, ValueError):
        return None


def _in_own_languages(tokenizer: Tokenizer, folder: Path) -> TokenizerPair:
    """The tokenisers of source and target: in the languages that the folder names, if it names any."""
    settings = _settings(folder)
    source, target = (
        tokenizer.with_prefix((tokenizer.languages[code],)) if code in tokenizer.languages else tokenizer
        for code in (settings.get("src_lang"), settings.get("tgt_lang"))
    )
    return TokenizerPair(source, target)


def _languages(
    content: Mapping[str, Any], vocabulary: Mapping[str, int], folder: Path, family: Family
) -> tuple[int, ...]:
    """The ids of all language tokens, with which texts begin.

    Raises:
        FolderError: texts end with their language, as in the first mBART.
    """
    if family.language is None:
        return ()
    special = {token["content"] for token in content.get("added_tokens") or [] if token.get("special")}
    found = [piece for piece in vocabulary if re.fullmatch(family.language, piece)]
    found = [piece for piece in found if piece in special] or found
    settings = _settings(folder)
    ends = _last_of_template(content.get("post_processor")) in found
    if (
        ends
        or settings.get("legacy_behaviour")
        or settings.get("tokenizer_class", "").startswith(LANGUAGE_LAST)
    ):
        raise FolderError(
            f"{folder}: its texts end with the token of their language, which is not supported",
            "mBART-50, M2M-100 and NLLB (with legacy_behaviour = false) begin with it",
        )
    return tuple(sorted(vocabulary[piece] for piece in found))


LANGUAGE_LAST = "MBartTokenizer"  # of the first mBART; also MBartTokenizerFast, but not MBart50Tokenizer


def _last_of_template(processor: object) -> object:
    """The last token that a tokenizer.json puts after a text; None if there is none."""
    match processor:
        case {"type": "TemplateProcessing", "single": [*_, {"SpecialToken": {"id": last}}]}:
            return last
    return None


def _content(folder: Path, family: Family) -> dict[str, Any] | None:
    """The tokenizer.json of the folder, or one converted from older files; None if there are none."""
    if os.path.isfile(folder / "tokenizer.json"):
        return read_table(folder / "tokenizer.json")
    settings = _settings(folder)
    if os.path.isfile(folder / "vocab.txt"):
        return tokenizer_pretrained.from_wordpiece(
            _lines(folder / "vocab.txt"),
            lowercase=bool(settings.get("do_lower_case", True)),
            strip_accents=settings.get("strip_accents"),
            unk=token_text(settings.get("unk_token")) or "[UNK]",
        )
    if os.path.isfile(folder / "merges.txt") and family.word_end:
        return tokenizer_pretrained.from_clip_bpe(
            _pieces(folder / "vocab.json"),
            _lines(folder / "merges.txt"),
            unk=family.special_tokens["unk"],
            word_end=family.word_end,
        )
    if os.path.isfile(folder / "merges.txt"):
        return tokenizer_pretrained.from_bytes_bpe(
            _pieces(folder / "vocab.json"),
            _lines(folder / "merges.txt"),
            prefix_space=bool(settings.get("add_prefix_space", False)),
        )
    if os.path.isfile(folder / "spiece.model") and family.name == "pegasus":  # its ids begin at 103
        raise FolderError(
            f"{folder}: the spiece.model of this family is not supported",
            "tokenizer.json is: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) writes it",
        )
    if os.path.isfile(folder / "spiece.model"):
        count = settings.get("extra_ids", 100)
        if type(count) is not int or not 0 <= count <= MAX_EXTRA_IDS:
            raise ValueError(f"extra_ids is not a number from 0 to {MAX_EXTRA_IDS:,}")
        extra = [f"<extra_id_{number}>" for number in reversed(range(count))]
        return from_sentencepiece(folder / "spiece.model", more=extra)
    if os.path.isfile(folder / "sentencepiece.bpe.model"):  # its ids are moved
        raise FolderError(
            f"{folder}: sentencepiece.bpe.model alone is not supported",
            "tokenizer.json is: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) writes it",
        )
    return None


def _marian(folder: Path, family: Family, converted: ConvertedConfig) -> TokenizerPair:
    """Marian's tokenisers: two sentencepiece files with the ids of vocab.json."""
    vocabulary = _pieces(folder / "vocab.json")
    both = []
    for side in ("source", "target"):
        names = vocabulary
        if side == "target" and os.path.isfile(folder / "target_vocab.json"):
            names = _pieces(folder / "target_vocab.json")
        content = from_sentencepiece(folder / f"{side}.spm", names)
        both.append(_tokenizer(content, names, folder, family, converted, is_source=side == "source"))
    return TokenizerPair(*both)


def _tokenizer(
    content: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    folder: Path,
    family: Family,
    converted: ConvertedConfig,
    languages: tuple[int, ...] = (),
    *,
    is_source: bool,
) -> Tokenizer:
    """A tokeniser with the special tokens of the family, whose ids must be in the model's vocabulary."""
    table = converted.config.to_dict()
    size = table.get("vocab_size") or table["src_vocab_size" if is_source else "tgt_vocab_size"]
    if vocabulary and max(vocabulary.values()) >= size:
        raise FolderError(
            f"{folder}: the tokeniser has ids up to {max(vocabulary.values())}, the model {size} embeddings",
            OTHER_MODEL_HINT,
        )
    numbers = _special_ids(
        vocabulary, {**family.special_tokens, **_special_names(folder)}, family.special_tokens
    )
    given = {"pad": converted.pad_id, "bos": converted.start_id, "eos": converted.eos_id}
    numbers |= {token: number for token, number in given.items() if number is not None}
    if "eos" not in numbers:
        raise FolderError(f"{folder}: the eos token is unknown", "set eos_token_id in config.json")
    numbers.setdefault("pad", numbers["eos"])
    numbers.setdefault("unk", numbers["eos"])
    numbers.setdefault("bos", numbers["pad"])
    if beyond := [token for token, number in numbers.items() if number >= size]:
        raise FolderError(f"{folder}: the special token {beyond[0]} has no embedding", OTHER_MODEL_HINT)
    ids: dict[str, Any] = {**numbers}
    special_tokens = SpecialTokens(vocab_size=size, prefix=converted.prefix, languages=languages, **ids)
    return Tokenizer.from_bytes(
        json.dumps(tokenizer_pretrained.with_special_tokens(content, special_tokens)).encode(),
        str(folder / "tokenizer.json"),
    )


def _special_ids(
    vocabulary: Mapping[str, int], names: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, int]:
    """The ids of our special tokens, found by their names in the vocabulary."""
    found: dict[str, int] = {}
    for token, hf_names in HF_NAMES.items():
        for name in [names.get(each) for each in hf_names] + [defaults.get(token)]:
            if name is not None and name in vocabulary:
                found[token] = vocabulary[name]
                break
    return found


def _special_names(folder: Path) -> dict[str, str]:
    """The names of the folder's special tokens: cls_token, pad_token and so on."""
    names: dict[str, str] = {}
    special = folder / "special_tokens_map.json"
    for table in (_settings(folder), read_table(special) if os.path.isfile(special) else {}):
        for hf_names in {each for all_names in HF_NAMES.values() for each in all_names}:
            if (text := token_text(table.get(hf_names))) is not None:
                names[hf_names] = text
    return names


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return read_table(path) if os.path.isfile(path) else {}


def token_text(token: object) -> str | None:
    """The text of a special token, which a file has as text or in an object; None for other values."""
    match token:
        case str(text) | {"content": str(text)}:
            return text
    return None


def _vocabulary(content: Mapping[str, Any]) -> dict[str, int]:
    """All pieces of a tokenizer.json and their ids."""
    entries = content["model"]["vocab"]
    if isinstance(entries, list):
        pieces = {str(pair[0]): number for number, pair in enumerate(entries)}
    else:
        pieces = dict(entries)
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
    vocabulary = pieces | added
    if not all(type(number) is int for number in vocabulary.values()):
        raise ValueError("its pieces have no ids")
    return vocabulary


def _pieces(path: Path) -> dict[str, int]:
    pieces = read_table(path)
    if not pieces or not all(type(number) is int and number >= 0 for number in pieces.values()):
        raise FolderError(f"{path} is not an object of pieces and ids", OTHER_MODEL_HINT)
    return pieces


def _lines(path: Path) -> list[str]:
    try:
        text = read_file(path).decode("utf-8")
        return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path}: {error}", "copy the folder again") from error


def adds_bos(folder: Path) -> bool:
    """True if the tokenizer.json of a folder adds a special token before every text."""
    if not os.path.isfile(folder / "tokenizer.json"):
        return False
    processor = read_table(folder / "tokenizer.json").get("post_processor")
    match processor:
        case {"type": "Sequence", "processors": list(each)}:
            processors = each
        case _:
            processors = [processor]
    for each in processors:
        match each:
            case {"type": "TemplateProcessing", "single": [{"SpecialToken": dict()}, *_]}:
                return True
    return False


def special_token_ids(tokenizers: TokenizerPair) -> dict[str, int]:
    """The special token ids of a tokeniser, with `first_token_id` if every text begins with one."""
    target, prefix = tokenizers.target, tokenizers.source.prefix
    special_tokens = {
        "pad_token_id": target.pad_id,
        "bos_token_id": target.bos_id,
        "eos_token_id": target.eos_id,
    }
    return {**special_tokens, "first_token_id": prefix[0]} if prefix else special_tokens


def write_tokenizers(
    tokenizers: TokenizerPair, config: ModelConfig, family: str, *, adds_bos: bool = False
) -> dict[str, bytes]:
    """The files that `transformers.AutoTokenizer` reads: tokenizer.json and tokenizer_config.json.

    `adds_bos`: texts of a decoder-only model begin with bos. A separate target tokeniser is written to a file
    that transformers does not read. The languages of a model of many are `src_lang` and `tgt_lang`.
    """
    source, target = tokenizers.source, tokenizers.target
    if source.splits_pieces or target.splits_pieces:
        raise FolderError(
            "its tokeniser splits pieces that the vocabulary lacks, as subword-nmt does",
            "transformers has no such tokeniser: take regard export --to ctranslate2",
        )
    first = target.bos_id
    if config.kind == "encoder_decoder":  # the decoder's start token is in config.json
        first = next(iter(source.prefix), None if first in (target.pad_id, target.eos_id) else first)
    named = {
        "pad_token": target.pad_id,
        "unk_token": target.unk_id,
        "bos_token": first,
        "eos_token": target.eos_id,
        "mask_token": target.mask_id,
    }
    if config.kind == "encoder_only":
        named |= {"cls_token": target.bos_id, "sep_token": target.eos_id}
    pieces = {number: piece for piece, number in source.vocabulary().items()}
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {name: pieces[number] for name, number in named.items() if number in pieces}
    others = [*source.special_texts(), *language_tokens(source)] if not source.trained_by_regard else []
    if others := [text for text in dict.fromkeys(others) if text not in settings.values()]:
        settings["additional_special_tokens"] = others
    for name, tokenizer in (("src_lang", source), ("tgt_lang", target)):
        for code, number in tokenizer.languages.items():
            if (number,) == tokenizer.prefix:
                settings[name] = code
    if getattr(config, "num_token_types", 0) > 1:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    files = {
        "tokenizer.json": _with_template(source, config, family, adds_bos),
        "tokenizer_config.json": json_bytes(settings),
    }
    if tokenizers.joint or source.languages:
        return files
    return {**files, TARGET: _with_template(target, config, family, adds_bos)}


def _with_template(tokenizer: Tokenizer, config: ModelConfig, family: str, adds_bos: bool) -> bytes:
    """The tokenizer.json with the special tokens that this kind of model expects around one or two texts."""
    content = with_languages(json.loads(tokenizer.to_bytes()), tokenizer)
    pieces = {number: piece for piece, number in tokenizer.vocabulary().items()}
    begin, end = (
        [pieces[number]] if number in pieces else [] for number in (tokenizer.bos_id, tokenizer.eos_id)
    )
    between = end * 2 if family in ("roberta", "xlm-roberta", "bart") else end
    if config.kind == "decoder_only":
        if not (adds_bos and begin):
            return json.dumps({**content, "post_processor": None}, ensure_ascii=False).encode()
        end, between = [], begin
    if config.kind == "encoder_decoder":
        begin = [pieces[number] for number in tokenizer.prefix]
    second = 1 if getattr(config, "num_token_types", 0) > 1 else 0
    single = [*map(template_token, begin), template_text("A"), *map(template_token, end)]
    pair = [*map(template_token, begin), template_text("A"), *map(template_token, between)]
    pair += [template_text("B", second), *(template_token(piece, second) for piece in end)]
    numbers = {piece: number for number, piece in pieces.items()}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {
            piece: {"id": piece, "ids": [numbers[piece]], "tokens": [piece]} for piece in {*begin, *end}
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()
