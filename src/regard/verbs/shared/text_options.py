"""The options of the text verbs, each declared once for the Python calls and the command line.

PyTorch is not imported here, so that `--help` is quick.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.errors import UserError
from regard.verbs.shared.keyword_fields import keyword

SplitMode = Literal["auto", "on", "off"]
DocumentFormat = Literal[
    "srt", "vtt", "html", "markdown"
]  # of files whose texts are translated, not their lines
FileFormat = Literal["lines", "srt", "vtt", "html", "markdown"]


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How texts are batched."""

    batch_tokens: int = keyword(
        4096, "Padded tokens of a batch: changes speed and memory, not the output.", metavar="N"
    )


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(BatchOptions):
    """How texts become vectors."""

    layer: int | None = keyword(
        None,
        "Give the mean of the states after this layer (0: the embeddings), of length as it is, as probes read"
        " it. [default: the vector of the model]",
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class TaggingOptions(BatchOptions):
    """How texts are labelled."""

    allow_fresh_head: bool = keyword(False, "Accept a model whose head is untrained.")


@dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TaggingOptions):
    """How texts are classified."""

    top: int = keyword(
        1,
        "Give that many classes, most probable first: LINE, LABEL, PROBABILITY, separated by tabs.",
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class FillingOptions(TaggingOptions):
    """How masked tokens are predicted."""

    top: int = keyword(5, "Give that many predictions for each masked token.", metavar="N")


@dataclass(frozen=True, kw_only=True)
class PrefixOptions:
    """What is put before a source."""

    prefix: str | None = keyword(
        None,
        "The text before each source, such as >>fra<<. [default: the model's own]",
        metavar="TEXT",
    )


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(PrefixOptions, BatchOptions):
    """How given texts are scored."""

    begin: bool | None = keyword(
        None,
        "Of a language model: predict the first token of a text, too, from the token that begins texts."
        " [default: if the model was trained so]",
    )
    end: bool | None = keyword(
        None,
        "Of a language model: predict the end of a text, too. [default: if regard trained the model so]",
    )

    def refuse_ends(self, what: str) -> None:
        """Raise a UserError for the options of models of another kind, `what`."""
        for name in ("begin", "end"):
            if getattr(self, name) is not None:
                raise UserError(f"{name} is for {what}", "leave it out")


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """The languages of a model that translates between many, such as NLLB."""

    source_lang: str | None = keyword(
        None,
        "The language of the texts, for a model of many languages, by its code there, such as eng_Latn.",
        metavar="CODE",
    )
    target_lang: str | None = keyword(
        None, "The language of the output, for a model of many languages, by its code.", metavar="CODE"
    )


SubtitleFormat = Literal["srt", "vtt"]


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    """How a speech-to-text model, such as Whisper, transcribes."""

    language: str | None = keyword(
        None,
        "The language that is spoken, such as de or german, for a model of many. [default: the model's own,"
        " or what it detects in the first window]",
        metavar="LANGUAGE",
    )
    task: Literal["transcribe", "translate"] | None = keyword(
        None, "Transcribe, or translate into English, with a model that does both. [default: the model's own]"
    )
    timestamps: bool = keyword(
        False, "Give each segment with its beginning and end: SECONDS, SECONDS, TEXT, separated by tabs."
    )


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """Prompts as messages to a chat model, or as text to continue."""

    chat: bool = keyword(False, "Answer each prompt as a user's message, by the model's chat template.")
    system: str | None = keyword(
        None, "The system message at the beginning of each conversation.", metavar="TEXT"
    )


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """Which part of a job is done, and where; with neither a shard nor an engine all of it, here."""

    shard: str | None = keyword(
        None,
        "Do part I of N of the input, a pattern of files; the output is a folder that all N share. What is"
        " done there is left out.",
        metavar="I/N",
    )
    on: str | None = keyword(
        None,
        "Do all of the input, a pattern of files, into the output, a folder, by processes of a cluster:"
        " ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one here; local is"
        " this process.",
        metavar="ENGINE",
    )
    processes: int | None = keyword(
        None,
        "With a cluster: how many processes have a model each. [default: as many as have a core, or a GPU]",
        metavar="N",
    )
    part_megabytes: float | None = keyword(
        None,
        "With a shard or an engine: the input of a part, whose output is kept as soon as it is done."
        " [default: a 64th of all, from 0.016 to 4]",
        metavar="N",
    )
    column: str | None = keyword(
        None,
        "The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number. With a shard"
        " or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the output are the same"
        " tables with one more column.",
        metavar="NAME",
    )
    into: str | None = keyword(
        None,
        "With a column and an output that is a table: the name of the column that is added, or the first of"
        " several. [default: translation, summary, continuation, vector, label (of a number: value), words,"
        " masks or log_prob]",
        metavar="NAME",
    )

    @property
    def is_job(self) -> bool:
        """True if the input is many files, and the output a folder."""
        return self.shard is not None or self.on is not None


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Which tasks are done, and where; with neither a shard nor an engine all of them, here."""

    shard: str | None = keyword(
        None,
        "Do every Nth run or test set only, from the Ith on; all processes share a folder.",
        metavar="I/N",
    )
    on: str | None = keyword(
        None,
        "Do all runs or test sets by processes of a cluster: ray://HOST:PORT; ray is the cluster of"
        " RAY_ADDRESS or of this machine, or a new one here; local is this process.",
        metavar="ENGINE",
    )
    processes: int | None = keyword(
        None, "With a cluster: how many at a time. [default: as many as have a core, or a GPU]", metavar="N"
    )


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How many processes decode."""

    workers: int | None = keyword(
        None,
        "Processes that share many lines. [default: one a core of a CPU; one where threads are set]",
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class UnknownOptions:
    """What stands in a translation for unknown tokens."""

    replace_unk: bool = keyword(
        False, "In place of each unknown token (<unk>) write the source word of the greatest attention."
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(WorkerOptions, PrefixOptions, LanguageOptions, UnknownOptions):
    """How a file is translated to be scored."""


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(WorkerOptions, PrefixOptions, BatchOptions):
    """How a text becomes another."""

    n_best: int = keyword(
        1,
        "Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is at least as"
        " wide.",
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(SummaryOptions, LanguageOptions, UnknownOptions):
    """How a text is translated."""

    split: Literal["auto", "on", "off"] = keyword(
        "auto",
        "Translate each sentence alone; auto: of a text always, of a line of a file if it is longer than the"
        " lines that the model was trained on.",
    )
    glossary: str | Path | None = keyword(  # noqa: RUF009
        None,
        "Require terms in the translations: a file with a source term, a tab and a target term in each line,"
        " or CSV.",
        metavar="FILE",
    )
    keep: tuple[str, ...] = keyword(
        (),
        "Leave what matches this regular expression as it is; placeholders: {name}, ${x}, %s, <0>, URLs and"
        " e-mail addresses; none: nothing. [default: placeholders in subtitles, HTML and"
        " Markdown, nothing in lines]",
        metavar="REGEX",
    )
    engine: Literal["regard", "ctranslate2"] = keyword(
        "regard",
        "Compute by regard, or by CTranslate2 (an extra), which stops a beam as early_stopping does.",
    )

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):  # its letters would be taken one by one
            object.__setattr__(self, "keep", (self.keep,))
