"""Tokenisers of pretrained models as `tokenizer.json`: WordPiece, byte-level BPE, SentencePiece.

Their special tokens have other names than ours, `<pad> <unk> <s> </s>`, or are missing. So the file stores
their ids in its `post_processor`, which the tokenizers library keeps unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import DataError

CLIP_SPACES = r"\s+"
CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
MAX_IDS = 16  # ids of a prefix; no known model has more than one
MAX_LANGUAGES = 2000  # NLLB has 202
MAX_SPLIT = 512  # pieces that a piece is split into
SPLIT = "split "  # begins the names under which splits are stored


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of a tokeniser's special tokens.

    `vocab_size` is the model's, which may be larger than the vocabulary. `prefix` precedes every text,
    input or output, as BART's <s> does. `languages` are tokens of which one may be such a prefix. `splits`
    are pieces that the model lacks, by ids beyond its vocabulary: a text gets these ids instead.
    """

    pad: int
    unk: int
    bos: int
    eos: int
    vocab_size: int
    mask: int | None = None
    prefix: tuple[int, ...] = ()
    languages: tuple[int, ...] = ()
    splits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def post_processor(self) -> dict[str, Any]:
        """The `post_processor` that stores these ids; with it the library adds prefix and eos to a text."""
        numbers: dict[str, list[int]] = {
            "pad": [self.pad],
            "unk": [self.unk],
            "bos": [self.bos],
            "eos": [self.eos],
            "last": [self.vocab_size - 1],
            **({"mask": [self.mask]} if self.mask is not None else {}),
            **({"prefix": list(self.prefix)} if self.prefix else {}),
            **({"languages": list(self.languages)} if self.languages else {}),
            **{f"{SPLIT}{number}": list(ids) for number, ids in self.splits.items()},
        }
        begin: list[dict[str, Any]] = [template_token("prefix")] if self.prefix else []
        end = template_token("eos")
        return {
            "type": "TemplateProcessing",
            "single": [*begin, template_text("A"), end],
            "pair": [*begin, template_text("A"), end, template_text("B"), end],
            "special_tokens": {
                name: {"id": name, "ids": ids, "tokens": [name] * len(ids)} for name, ids in numbers.items()
            },
        }

    @classmethod
    def of(cls, processor: object) -> "SpecialTokens | None":
        """Reads the ids from the `post_processor` of a file; None if there is none.

        Raises:
            ValueError: it is damaged or was not written by regard.
        """
        match processor:
            case None:
                return None
            case {"type": "TemplateProcessing", "single": single, "special_tokens": dict(table)}:
                numbers = {name: _ids_of(name, entry) for name, entry in table.items()}
            case _:
                raise ValueError("post_processor is not supported")
        splits = {name: numbers.pop(name) for name in list(numbers) if name.startswith(SPLIT)}
        needed = {"pad", "unk", "bos", "eos", "last"}
        if not needed <= set(numbers) <= {*needed, "mask", "prefix", "languages"}:
            raise ValueError("its special tokens are not those of regard")
        if any(len(ids) != 1 for name, ids in numbers.items() if name not in SEVERAL):
            raise ValueError("a special token has several ids")
        (last,) = numbers.pop("last")
        prefix = numbers.pop("prefix", ())
        languages = numbers.pop("languages", ())
        one = {name: ids[0] for name, ids in numbers.items()}
        special = cls(
            vocab_size=last + 1,
            prefix=prefix,
            languages=languages,
            splits={int(name.removeprefix(SPLIT)): ids for name, ids in splits.items()},
            **one,
        )
        if max((*one.values(), *prefix, *languages)) > last:
            raise ValueError("a special token is outside the vocabulary")
        if any(number <= last or max(ids) > last for number, ids in special.splits.items()):
            raise ValueError("a split is not from outside of the vocabulary to within")
        if single != special.post_processor()["single"]:  # for example one that repeats the text
            raise ValueError("its template is not that of regard")
        return special


SEVERAL = ("prefix", "languages")  # special tokens of several ids


def with_special_tokens(content: Mapping[str, Any], special: SpecialTokens) -> dict[str, Any]:
    """The tokenizer.json with these special tokens, without truncation and padding."""
    return {**content, "truncation": None, "padding": None, "post_processor": special.post_processor()}


def with_lowercase(content: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer.json with a lower-casing step first, unless it has one already."""
    normalizer = content.get("normalizer") or {}
    steps = normalizer["normalizers"] if normalizer.get("type") == "Sequence" else [normalizer]
    steps = [step for step in steps if step]
    if any(step["type"] == "Lowercase" or step.get("lowercase") is True for step in steps):
        return dict(content)
    return {**content, "normalizer": pipeline_parts("normalizers", [{"type": "Lowercase"}, *steps])}


def from_wordpiece(
    vocabulary: Sequence[str], *, lowercase: bool, strip_accents: bool | None, unk: str
) -> dict[str, Any]:
    """BERT's tokeniser (Devlin et al. 2019) from the lines of its vocab.txt."""
    pieces = {piece: number for number, piece in enumerate(vocabulary)}
    if unk not in pieces:
        raise DataError(f"vocab.txt has no {unk}", "is it the file of another tokeniser?")
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
    """GPT-2's tokeniser (Radford et al. 2019) from its vocab.json and the lines of its merges.txt."""
    level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": True}
    return new_file(
        normalizer=None,
        pre_tokenizer=level,
        model=_bpe(vocabulary, merges, unk=None, word_end=""),
        decoder=level,
    )


def from_clip_bpe(
    vocabulary: Mapping[str, int], merges: Sequence[str], *, unk: str, word_end: str
) -> dict[str, Any]:
    """CLIP's tokeniser (Radford et al. 2021, section 2.4) from vocab.json and the lines of merges.txt.

    Texts are lower-cased. Letters, single digits and other characters are words, and spaces are dropped; the
    last piece of a word ends with `word_end`.
    """
    if unk not in vocabulary:
        raise DataError(f"vocab.json has no {unk}", "is it the file of another tokeniser?")
    spaces = replacement({"Regex": CLIP_SPACES}, " ")
    words = {"type": "Split", "pattern": {"Regex": CLIP_WORDS}, "behavior": "Removed", "invert": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return new_file(
        normalizer=pipeline_parts("normalizers", [{"type": "NFC"}, spaces, {"type": "Lowercase"}]),
        pre_tokenizer=pipeline_parts("pretokenizers", [words, level]),
        model=_bpe(vocabulary, merges, unk=unk, word_end=word_end),
        decoder=level,
    )


def _bpe(
    vocabulary: Mapping[str, int], merges: Sequence[str], *, unk: str | None, word_end: str
) -> dict[str, Any]:
    """The BPE model of these pieces and the lines of a merges.txt."""
    pairs = [line.split(" ") for line in merges if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError("merges.txt has a line that is not a pair", "is it the file of another tokeniser?")
    return bpe_model(vocabulary, pairs, unk, prefix="", end=word_end)


def bpe_model(
    vocabulary: Mapping[str, int],
    merges: Iterable[Sequence[str]],
    unk: str | None,
    *,
    prefix: str | None = None,
    end: str | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
) -> dict[str, Any]:
    """The model of a tokenizer.json that merges pairs of pieces, the best first."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": end,
        "fuse_unk": fuse_unk,
        "byte_fallback": byte_fallback,
        "ignore_merges": False,
        "vocab": dict(vocabulary),
        "merges": [list(pair) for pair in merges],
    }


def new_file(**parts: Any) -> dict[str, Any]:
    """A tokenizer.json of these parts, without special tokens."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "post_processor": None,
        **parts,
    }


def pipeline_parts(name: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A `Sequence` of parts; `name` is the library's key for them."""
    return {"type": "Sequence", name: list(parts)}


def replacement(pattern: Mapping[str, str], content: str) -> dict[str, Any]:
    """A part that puts `content` in place of a `pattern`: {"String": text} or {"Regex": expression}."""
    return {"type": "Replace", "pattern": dict(pattern), "content": content}


def template_token(name: str, token_type: int = 0) -> dict[str, Any]:
    """A special token in the template of a text."""
    return {"SpecialToken": {"id": name, "type_id": token_type}}


def template_text(name: str, token_type: int = 0) -> dict[str, Any]:
    """The place of a text in a template; `name`: "A", or "B" for the second of a pair."""
    return {"Sequence": {"id": name, "type_id": token_type}}


def _ids_of(name: str, entry: object) -> tuple[int, ...]:
    most = MAX_LANGUAGES if name == "languages" else MAX_SPLIT if name.startswith(SPLIT) else MAX_IDS
    match entry:
        case {"ids": [*ids]} if len(ids) > most:
            raise ValueError(f"a special token has {len(ids):,} ids")
        case {"ids": [*ids]} if ids and all(type(number) is int and 0 <= number < 2**31 for number in ids):
            return tuple(ids)
    raise ValueError("a special token has no id")
