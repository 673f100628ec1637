"""The tokeniser of a Hugging Face folder as ours, whatever files it is in; and ours as theirs."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data import tokenizer_pretrained
from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_pretrained import SpecialTokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.errors import DataError, FolderError
from regard.models.config import ModelConfig
from regard.weights.families.family import ConvertedConfig, Family
from regard.weights.families.sentence import lowers_case
from regard.weights.huggingface_files import read_table
from regard.weights.strict_json import json_bytes

HINT = "the tokeniser belongs to another model: copy the folder anew"
MOST_EXTRA = 100_000  # of T5's marks for hidden words, which are 100
CALLED = {  # our marks -> what transformers calls them, the first that is there
    "pad": ("pad_token", "eos_token"),
    "unk": ("unk_token", "eos_token"),
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "mask": ("mask_token",),
}


def read_tokenizers(folder: Path, family: Family, described: ConvertedConfig) -> TokenizerPair | None:
    """How the model's texts become ids; None where the folder has no file that says it.

    Raises:
        FolderError: a file is damaged, or belongs to another model.
    """
    try:
        if os.path.isfile(folder / "source.spm") and not os.path.isfile(folder / "tokenizer.json"):
            return _marian(folder, family, described)
        content = _content(folder)
        if content is None:
            return None
        if lowers_case(folder):
            content = tokenizer_pretrained.with_lowercase(content)
        vocabulary = _vocabulary(content)
        tokenizer = _tokenizer(content, vocabulary, folder, family, described, reads=True)
        return TokenizerPair(tokenizer, tokenizer)
    except DataError as error:
        raise FolderError(f"{folder}: {error.message}", error.hint) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FolderError(f"{folder}: its tokeniser is damaged ({error})", HINT) from error


def _content(folder: Path) -> dict[str, Any] | None:
    """The tokenizer.json of the folder, or one made of the older files."""
    if os.path.isfile(folder / "tokenizer.json"):
        return read_table(folder / "tokenizer.json")
    settings = _settings(folder)
    if os.path.isfile(folder / "vocab.txt"):
        return tokenizer_pretrained.from_wordpiece(
            _lines(folder / "vocab.txt"),
            lowercase=bool(settings.get("do_lower_case", True)),
            strip_accents=settings.get("strip_accents"),
            unk=_word(settings.get("unk_token")) or "[UNK]",
        )
    if os.path.isfile(folder / "merges.txt"):
        return tokenizer_pretrained.from_bytes_bpe(
            _pieces(folder / "vocab.json"),
            _lines(folder / "merges.txt"),
            prefix_space=bool(settings.get("add_prefix_space", False)),
        )
    if os.path.isfile(folder / "spiece.model"):
        count = settings.get("extra_ids", 100)
        if type(count) is not int or not 0 <= count <= MOST_EXTRA:
            raise ValueError(f"extra_ids is no number from 0 to {MOST_EXTRA:,}")
        extra = [f"<extra_id_{number}>" for number in reversed(range(count))]
        return from_sentencepiece(folder / "spiece.model", more=extra)
    return None


def _marian(folder: Path, family: Family, described: ConvertedConfig) -> TokenizerPair:
    """Two files of sentencepiece that share the numbers of vocab.json."""
    vocabulary = _pieces(folder / "vocab.json")
    both = []
    for side in ("source", "target"):
        names = vocabulary
        if side == "target" and os.path.isfile(folder / "target_vocab.json"):
            names = _pieces(folder / "target_vocab.json")
        content = from_sentencepiece(folder / f"{side}.spm", names)
        both.append(_tokenizer(content, names, folder, family, described, reads=side == "source"))
    return TokenizerPair(*both)


def _tokenizer(
    content: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    folder: Path,
    family: Family,
    described: ConvertedConfig,
    *,
    reads: bool,
) -> Tokenizer:
    """With the marks of the family, which must all lie in the model's vocabulary."""
    table = described.config.to_dict()
    size = table.get("vocab_size") or table["src_vocab_size" if reads else "tgt_vocab_size"]
    if vocabulary and max(vocabulary.values()) >= size:
        raise FolderError(
            f"{folder}: the tokeniser has ids up to {max(vocabulary.values())}, the model {size} embeddings",
            HINT,
        )
    numbers = _numbers(vocabulary, {**family.marks, **_names(folder)}, family.marks)
    given = {"pad": described.pad_id, "bos": described.start_id, "eos": described.eos_id}
    numbers |= {mark: number for mark, number in given.items() if number is not None}
    numbers.setdefault("pad", numbers.get("eos", 0))
    numbers.setdefault("unk", numbers.get("eos", 0))
    numbers.setdefault("bos", numbers["pad"])
    if "eos" not in numbers:
        raise FolderError(f"{folder}: nothing says which token ends a text", "eos_token_id in config.json")
    if beyond := [mark for mark, number in numbers.items() if number >= size]:
        raise FolderError(f"{folder}: the mark {beyond[0]} has no embedding", HINT)
    marks = SpecialTokens(vocab_size=size, prefix=described.prefix, **numbers)
    return Tokenizer.from_bytes(
        json.dumps(tokenizer_pretrained.with_special_tokens(content, marks)).encode(),
        str(folder / "tokenizer.json"),
    )


def _numbers(
    vocabulary: Mapping[str, int], names: Mapping[str, str], usual: Mapping[str, str]
) -> dict[str, int]:
    """The ids of our marks by their names in the vocabulary."""
    found: dict[str, int] = {}
    for mark, called in CALLED.items():
        for name in [names.get(each) for each in called] + [usual.get(mark)]:
            if name is not None and name in vocabulary:
                found[mark] = vocabulary[name]
                break
    return found


def _names(folder: Path) -> dict[str, str]:
    """What the folder calls its marks: cls_token, pad_token and so on."""
    names: dict[str, str] = {}
    special = folder / "special_tokens_map.json"
    for table in (_settings(folder), read_table(special) if os.path.isfile(special) else {}):
        for called in {each for all_names in CALLED.values() for each in all_names}:
            if (word := _word(table.get(called))) is not None:
                names[called] = word
    return names


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return read_table(path) if os.path.isfile(path) else {}


def _word(token: object) -> str | None:
    """A mark as a file has it: a text, or a table that holds it."""
    match token:
        case str(text) | {"content": str(text)}:
            return text
    return None


def _vocabulary(content: Mapping[str, Any]) -> dict[str, int]:
    """All pieces of a tokenizer.json and their numbers."""
    held = content["model"]["vocab"]
    if isinstance(held, list):
        pieces = {str(pair[0]): number for number, pair in enumerate(held)}
    else:
        pieces = dict(held)
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
    vocabulary = pieces | added
    if not all(type(number) is int for number in vocabulary.values()):
        raise ValueError("its pieces have no numbers")
    return vocabulary


def _pieces(path: Path) -> dict[str, int]:
    pieces = read_table(path)
    if not pieces or not all(type(number) is int and number >= 0 for number in pieces.values()):
        raise FolderError(f"{path} is no table of pieces and their numbers", HINT)
    return pieces


def _lines(path: Path) -> list[str]:
    try:
        text = read_file(path).decode("utf-8")
        return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path}: {error}", "copy the folder anew") from error


def begins(folder: Path) -> bool:
    """Whether the tokenizer.json of a folder puts a mark before every text."""
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


def marks_of(text: TokenizerPair) -> dict[str, int]:
    """What config.json says of a tokeniser; `first_token_id`, where a mark stands before every text."""
    target, prefix = text.target, text.source.prefix
    marks = {
        "pad_token_id": target.pad_id,
        "bos_token_id": target.bos_id,
        "eos_token_id": target.eos_id,
    }
    return {**marks, "first_token_id": prefix[0]} if prefix else marks


def write_tokenizers(
    text: TokenizerPair, config: ModelConfig, family: str, *, begins: bool = False
) -> dict[str, bytes]:
    """tokenizer.json as `transformers.AutoTokenizer` reads it, and which of its pieces are marks.

    `begins`: a decoder's texts have a mark before them. Where target texts have another tokeniser it is in a
    file that transformers does not read.
    """
    source, target = text.source, text.target
    first = target.bos_id
    if config.kind == "encoder_decoder":  # what a decoder begins with is in config.json
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
    if getattr(config, "num_token_types", 0) > 1:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    files = {
        "tokenizer.json": _with_template(source, config, family, begins),
        "tokenizer_config.json": json_bytes(settings),
    }
    if text.joint:
        return files
    return {**files, "target_tokenizer.json": _with_template(target, config, family, begins)}


def _with_template(tokenizer: Tokenizer, config: ModelConfig, family: str, begins: bool) -> bytes:
    """The file with the marks that this kind of model wants around a text, or around two."""
    content = json.loads(tokenizer.to_bytes())
    pieces = {number: piece for piece, number in tokenizer.vocabulary().items()}
    begin, end = (
        [pieces[number]] if number in pieces else [] for number in (tokenizer.bos_id, tokenizer.eos_id)
    )
    between = end * 2 if family in ("roberta", "bart") else end
    if config.kind == "decoder_only":
        if not (begins and begin):
            return json.dumps({**content, "post_processor": None}, ensure_ascii=False).encode()
        end, between = [], begin
    if config.kind == "encoder_decoder":
        begin = [pieces[number] for number in tokenizer.prefix]
    second = 1 if getattr(config, "num_token_types", 0) > 1 else 0
    single = [*map(_mark, begin), _text("A"), *map(_mark, end)]
    pair = [*map(_mark, begin), _text("A"), *map(_mark, between), _text("B", second)]
    pair += [_mark(piece, second) for piece in end]
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


def _mark(piece: str, kind: int = 0) -> dict[str, Any]:
    return {"SpecialToken": {"id": piece, "type_id": kind}}


def _text(name: str, kind: int = 0) -> dict[str, Any]:
    return {"Sequence": {"id": name, "type_id": kind}}
