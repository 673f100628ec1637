"""Tokenisers of other makers as `tokenizer.json`: WordPiece, byte-level BPE, SentencePiece.

What our own have for marks, `<pad> <unk> <s> </s>`, others call by other names, or do not have. So the marks
stand in the file by number, in its `post_processor`, where the tokenizers library leaves them be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError

MOST_NUMBERS = 16  # of a mark: no model of a known family has more than one before its texts


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Numbers of the marks. `vocab_size` is the model's, which may be more than the pieces.

    `prefix` stands before every text, read or written, as BART's <s> does.
    """

    pad: int
    unk: int
    bos: int
    eos: int
    vocab_size: int
    mask: int | None = None
    prefix: tuple[int, ...] = ()

    def post_processor(self) -> dict[str, Any]:
        """The marks as the file has them; the library puts prefix and end around a text by it."""
        numbers: dict[str, list[int]] = {
            "pad": [self.pad],
            "unk": [self.unk],
            "bos": [self.bos],
            "eos": [self.eos],
            "last": [self.vocab_size - 1],
            **({"mask": [self.mask]} if self.mask is not None else {}),
            **({"prefix": list(self.prefix)} if self.prefix else {}),
        }
        begin: list[dict[str, Any]] = [_special("prefix")] if self.prefix else []
        return {
            "type": "TemplateProcessing",
            "single": [*begin, _sequence("A"), _special("eos")],
            "pair": [*begin, _sequence("A"), _special("eos"), _sequence("B"), _special("eos")],
            "special_tokens": {
                name: {"id": name, "ids": ids, "tokens": [name] * len(ids)} for name, ids in numbers.items()
            },
        }

    @classmethod
    def of(cls, processor: object) -> "SpecialTokens | None":
        """The marks of a file of ours; None where there are none.

        Raises:
            ValueError: they are damaged.
        """
        match processor:
            case None:
                return None
            case {"type": "TemplateProcessing", "single": single, "special_tokens": dict(table)}:
                numbers = {name: _numbers(entry) for name, entry in table.items()}
            case _:
                raise ValueError("post_processor is not ours to do")
        needed = {"pad", "unk", "bos", "eos", "last"}
        if not needed <= set(numbers) <= {*needed, "mask", "prefix"}:
            raise ValueError("its marks are not ours")
        if any(len(ids) != 1 for name, ids in numbers.items() if name != "prefix"):
            raise ValueError("a mark has one number")
        (last,) = numbers.pop("last")
        prefix = numbers.pop("prefix", ())
        marks = cls(vocab_size=last + 1, prefix=prefix, **{name: ids[0] for name, ids in numbers.items()})
        if max((*(ids[0] for ids in numbers.values()), *prefix)) > last:
            raise ValueError("a mark is beyond the vocabulary")
        if single != marks.post_processor()["single"]:  # one that says the text many times
            raise ValueError("its template is not ours")
        return marks


def with_special_tokens(content: Mapping[str, Any], marks: SpecialTokens) -> dict[str, Any]:
    """A tokenizer.json with these marks; what cuts and pads texts is left out."""
    return {**content, "truncation": None, "padding": None, "post_processor": marks.post_processor()}


def in_lower_case(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same tokenizer.json, which puts a text into lower case first, unless it does already."""
    normalizer = content.get("normalizer") or {}
    steps = normalizer["normalizers"] if normalizer.get("type") == "Sequence" else [normalizer]
    steps = [step for step in steps if step]
    if any(step["type"] == "Lowercase" or step.get("lowercase") is True for step in steps):
        return dict(content)
    return {**content, "normalizer": sequence_of("normalizers", [{"type": "Lowercase"}, *steps])}


def from_wordpiece(
    vocabulary: Sequence[str], *, lowercase: bool, strip_accents: bool | None, unk: str
) -> dict[str, Any]:
    """BERT's tokeniser from the lines of its vocab.txt (Devlin et al. 2019)."""
    pieces = {piece: number for number, piece in enumerate(vocabulary)}
    if unk not in pieces:
        raise DataError(f"vocab.txt has no {unk}", "it belongs to another tokeniser")
    return new_file(
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        model={
            "type": "WordPiece",
            "unk_token": unk,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": pieces,
        },
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
    )


def from_bytes_bpe(
    vocabulary: Mapping[str, int], merges: Sequence[str], *, prefix_space: bool
) -> dict[str, Any]:
    """GPT-2's tokeniser from its vocab.json and the lines of its merges.txt (Radford et al. 2019)."""
    level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": True}
    pairs = [line.split(" ") for line in merges if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError("merges.txt has a line that is no pair", "it belongs to another tokeniser")
    return new_file(
        normalizer=None,
        pre_tokenizer=level,
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": dict(vocabulary),
            "merges": pairs,
        },
        decoder=level,
    )


def new_file(**parts: Any) -> dict[str, Any]:
    """A tokenizer.json of these parts, without marks."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "post_processor": None,
        **parts,
    }


def sequence_of(name: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several parts as one; `name` is what the library calls them there."""
    return {"type": "Sequence", name: list(parts)}


def _special(name: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": name, "type_id": 0}}


def _sequence(name: str) -> dict[str, Any]:
    return {"Sequence": {"id": name, "type_id": 0}}


def _numbers(entry: object) -> tuple[int, ...]:
    match entry:
        case {"ids": [*ids]} if len(ids) > MOST_NUMBERS:
            raise ValueError(f"a mark has {len(ids):,} numbers")
        case {"ids": [*ids]} if ids and all(type(number) is int and 0 <= number < 2**31 for number in ids):
            return tuple(ids)
    raise ValueError("a mark has no number")
