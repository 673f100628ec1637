"""What type checkers and editors see of `regard`. Written by tools/stub.py: change the verbs."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from numpy import ndarray
from pathlib import Path
from regard.data.image_files import PillowImage
from regard.errors import RegardError as RegardError
from regard.errors import UserError as UserError
from regard.evaluation.translation import Comparison
from regard.jobs.pace import PartDone
from regard.jobs.pace import ShardReport
from regard.jobs.tasks import TaskProgress
from regard.jobs.tasks import TaskRecord
from regard.verbs.average import average as average
from regard.verbs.classify import Classifier as _Classifier
from regard.verbs.classify_images import ImageClassifier as _ImageClassifier
from regard.verbs.classify_nodes import NodeClassifier as _NodeClassifier
from regard.verbs.compared_runs import compare_runs as compare_runs
from regard.verbs.convert import convert as convert
from regard.verbs.curves import curves as curves
from regard.verbs.data import data_check as data_check
from regard.verbs.data import data_get as data_get
from regard.verbs.data import data_list as data_list
from regard.verbs.data import data_show as data_show
from regard.verbs.demo import DemoResult
from regard.verbs.doctor import doctor as doctor
from regard.verbs.embed import Embedder as _Embedder
from regard.verbs.embed import SimilarLine
from regard.verbs.embed_images import ImageEmbedder as _ImageEmbedder
from regard.verbs.evaluate import Evaluation
from regard.verbs.export import export as export
from regard.verbs.fill import Filler as _Filler
from regard.verbs.generate import Generator as _Generator
from regard.verbs.jobs import jobs_merge as jobs_merge
from regard.verbs.jobs import jobs_status as jobs_status
from regard.verbs.jobs import jobs_verify as jobs_verify
from regard.verbs.learn import learn as learn
from regard.verbs.load import Loaded as _Loaded
from regard.verbs.look import Look as Look
from regard.verbs.look import Looker as _Looker
from regard.verbs.new import new as new
from regard.verbs.plot import plot_curves as plot_curves
from regard.verbs.plot import plot_schedule as plot_schedule
from regard.verbs.recipe_keys import recipes_keys as recipes_keys
from regard.verbs.recipes import recipes as recipes
from regard.verbs.recipes import recipes_show as recipes_show
from regard.verbs.score_texts import TextScorer as _TextScorer
from regard.verbs.shared.scored_lines import LineScores
from regard.verbs.summarize import Summarizer as _Summarizer
from regard.verbs.tag import Tagger as _Tagger
from regard.verbs.train import TrainResult
from regard.verbs.transcribe import Transcriber as _Transcriber
from regard.verbs.translate import Translator as _Translator
from regard.verbs.views.request import Changes
from regard.weights.model_folder import LoadedModel
from torch import Tensor
from typing import Any
from typing import Literal
from typing import overload

__version__: str
__all__ = [
    "Classifier",
    "Embedder",
    "Filler",
    "Generator",
    "ImageClassifier",
    "ImageEmbedder",
    "Look",
    "Looker",
    "NodeClassifier",
    "RegardError",
    "Summarizer",
    "Tagger",
    "TextScorer",
    "Transcriber",
    "Translator",
    "UserError",
    "average",
    "classify",
    "classify_file",
    "classify_images",
    "classify_nodes",
    "classify_shard",
    "compare",
    "compare_runs",
    "convert",
    "curves",
    "data_check",
    "data_get",
    "data_list",
    "data_show",
    "demo",
    "doctor",
    "embed",
    "embed_file",
    "embed_images",
    "embed_shard",
    "embed_similar",
    "evaluate",
    "evaluate_sets",
    "export",
    "fill",
    "fill_file",
    "fill_shard",
    "generate",
    "generate_file",
    "generate_shard",
    "jobs_merge",
    "jobs_status",
    "jobs_verify",
    "learn",
    "load",
    "look",
    "new",
    "plot_alignment",
    "plot_attention",
    "plot_curves",
    "plot_positions",
    "plot_schedule",
    "recipes",
    "recipes_keys",
    "recipes_show",
    "score",
    "score_shard",
    "summarize",
    "summarize_file",
    "summarize_shard",
    "sweep",
    "tag",
    "tag_file",
    "tag_shard",
    "tokenize_corpus",
    "train",
    "transcribe",
    "translate",
    "translate_file",
    "translate_shard",
]

class Classifier(_Classifier):
    """A model, loaded once, that classifies texts. An answer depends on its text alone.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        top: int = 1,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            allow_fresh_head: Accept a model whose head is untrained.
            top: Give that many classes, most probable first: LINE, LABEL, PROBABILITY, separated by tabs.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


@overload
def classify(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
) -> str | float | None:
    """The class of a text, or of each text of several.

    An empty text has the class None; a regression model gives a number. With `top` above 1 the answer is a
    list of (label, probability), most probable first. For many calls keep a `Classifier`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many classes, most probable first: LINE, LABEL, PROBABILITY, separated by tabs.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: the model does not classify, or its head is untrained and `allow_fresh_head` is not set.
        DataError: a text is not a str.
    """

@overload
def classify(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int,
    device: str = "auto",
    threads: int | None = None,
) -> list[tuple[str, float]] | float:
    ...

@overload
def classify(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
) -> list[str | float | None]:
    ...

@overload
def classify(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, float]] | float]:
    ...


@overload
def classify_file(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
) -> list[str | float | None]:
    """The answers of `classify` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many classes, most probable first: LINE, LABEL, PROBABILITY, separated by tabs.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """

@overload
def classify_file(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, float]] | float]:
    ...


class ImageClassifier(_ImageClassifier):
    """A model, loaded once, that classifies images. An image's class does not depend on its batch.

    An image-text model (CLIP) classifies by `labels`, texts such as "a photo of a cat": the probabilities are
    the softmax of the logits of these texts (Radford et al. 2021, section 3.1.2).

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.
        labels: for an image-text model, the text of each class.

    Raises:
        FolderError: the model is not for images.
        UserError: the model needs labels, or has its own.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        top: int = 1,
        labels: Sequence[str] = (),
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


@overload
def classify_images(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path | PillowImage | ndarray | Sequence[str | Path | PillowImage | ndarray],
    *,
    model: str | Path | LoadedModel,
    top: Literal[1] = 1,
    labels: Sequence[str] = (),
    device: str = "auto",
    threads: int | None = None,
) -> list[str]:
    """The class of each image: of files and folders, IDX and NPZ files, Pillow's images, arrays of bytes.

    A folder means the images in it and in its folders, sorted by name.

    With `top` above 1 the result for an image is a list of `top` (label, probability), most likely first.
    For many calls keep an `ImageClassifier`.

    Args:
        input: a path (an image file, a folder of them, an IDX or NPZ file, NAME:FILE of a known data set),
            an image of Pillow, or a list of these and of arrays [channels, height, width]; or one array
            [images, channels, height, width].
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.
        labels: for an image-text model (CLIP), the text of each class, such as "a photo of a cat".
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: a file is damaged, or its images do not fit the model.
        FolderError: the model is not for images. UserError: the model needs labels, or has its own.
        MissingExtra: image files need Pillow.
    """

@overload
def classify_images(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path | PillowImage | ndarray | Sequence[str | Path | PillowImage | ndarray],
    *,
    model: str | Path | LoadedModel,
    top: int,
    labels: Sequence[str] = (),
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, float]]]:
    ...


class NodeClassifier(_NodeClassifier):
    """A model, loaded once, that classifies the nodes of graphs.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each node, most likely first.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        top: int = 1,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


@overload
def classify_nodes(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    top: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
) -> list[str]:
    """The class of each node of the graph in an NPZ file (`features`, `edges`), or in NAME:FILE.

    With `top` above 1 the result for a node is a list of `top` (label, probability), most likely first.
    For many calls keep a `NodeClassifier`.

    Args:
        input: the file of the graph.
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each node, most likely first.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: the file is damaged, or its nodes do not have as many features as the model reads.
        FolderError: the model is not for graphs.
    """

@overload
def classify_nodes(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    top: int,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, float]]]:
    ...


def compare(
    systems: Sequence[str | Path],
    *,
    ref: str | Path | Iterable[str | Path] = (),
    metric: str | Path | LoadedModel | Iterable[str | Path | LoadedModel] = (),
    src: str | Path | None = None,
    tokenize: Literal["auto", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200", "spBLEU-1K", "none"] = "auto",
    lowercase: bool = False,
    labels: bool | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> list[Comparison]:
    """Score the outputs of one system, or compare those of several with the first, the baseline.

    Translations have BLEU, chrF++, chrF and TER, with sacreBLEU's paired bootstrap resampling (Koehn 2004),
    and one tokeniser for all systems. Labels have accuracies, with McNemar's exact test.

    Args:
        systems: a file of translations or labels by each system, the baseline first; one system alone has
            scores and intervals.
        ref: one or several files of references, aligned with the translations line by line; none for a metric
            that reads sources alone.
        metric: one or several learned metrics, each a folder that `regard convert` writes of a COMET metric,
            or what `regard.load` returns; they are compared after BLEU, chrF++ and TER.
        src: a file of the sources, for a metric that reads them.
        tokenize: sacreBLEU's tokeniser; "auto" is the one for the references' script, "none" is for text that
            is tokenised already.
        lowercase: ignore case; learned metrics never do.
        labels: True if each line is the label of a class; None: if all files share a few different lines,
            and have 20 or more.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: there is no file, one is named twice, files are not aligned, or the tokeniser cannot be
            used.
        UserError: a metric lacks what it reads, a system is a folder, or labels are given another metric.
        FolderError: a folder is not a metric.
    """


def demo(
    *,
    out: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> DemoResult:
    """Train `recipes/dates.toml`, show translated dates with their alignment, and print what to try next.

    A demo that was stopped is resumed. If it is finished, only its results are shown.

    Args:
        out: the run folder; None is `runs/demo-...`.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


class Embedder(_Embedder):
    """An encoder, loaded once, that embeds texts. But for rounding, a vector depends on its text alone.

    A sentence encoder pools as its configuration specifies (Reimers and Gurevych 2019). An image-text model
    (CLIP) gives the vector that it compares with those of images; any other encoder the mean of its token
    states. Both are normalised to length 1.

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model is not an encoder.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        batch_tokens: int = 4096,
        layer: int | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            layer: Give the mean of the states after this layer (0: the embeddings), of length as it is, as
                probes read it. [default: the vector of the model]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


def embed(
    text: str | Iterable[str],
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    layer: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """The vectors of several texts, [texts, d_model]; of one text its vector, [d_model].

    For many calls keep an `Embedder`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        layer: Give the mean of the states after this layer (0: the embeddings), of length as it is, as
            probes read it. [default: the vector of the model]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: the model is not an encoder. DataError: a text is not a str.
    """


def embed_file(
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    layer: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """The vectors of the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        layer: Give the mean of the states after this layer (0: the embeddings), of length as it is, as
            probes read it. [default: the vector of the model]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def embed_similar(
    text: Iterable[str],
    *,
    similar_to: str,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    layer: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> list[SimilarLine]:
    """All texts with their similarity to `similar_to`, most similar first.

    Args:
        text: the texts to rank.
        similar_to: the text that they are compared with.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        layer: Give the mean of the states after this layer (0: the embeddings), of length as it is, as
            probes read it. [default: the vector of the model]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


class ImageEmbedder(_ImageEmbedder):
    """An image-text model, loaded once, that embeds images. A vector depends on its image alone.

    Images of any size are resized and cropped as the model's own images were (Radford et al. 2021); grey ones
    have three equal channels. Vectors have length 1.

    Args:
        model: a model folder, a Hugging Face folder of CLIP, or what `regard.load` gives.

    Raises:
        FolderError: the model embeds no images.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


def embed_images(
    images: str | Path | PillowImage | ndarray | Sequence[str | Path | PillowImage | ndarray],
    *,
    model: str | Path | LoadedModel,
    device: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """The vectors of images: of files and folders, IDX and NPZ files, images of Pillow, or arrays of bytes.

    They are in the space of the vectors that `embed` gives of texts, and have length 1. For many calls keep
    an `ImageEmbedder`.

    Args:
        images: a path (an image file, a folder of them, an IDX or NPZ file, NAME:FILE of a known data set),
            an image of Pillow, or a list of these and of arrays [channels, height, width]; or one array
            [images, channels, height, width].
        model: a model folder, a Hugging Face folder of CLIP, or what `regard.load` gives.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: a file is damaged, or its images do not fit the model.
        FolderError: the model embeds no images. MissingExtra: image files need Pillow.
    """


def evaluate(
    *,
    model: str | Path | LoadedModel | None = None,
    data: str | Path | None = None,
    columns: Sequence[str | int] = (),
    src: str | Path | None = None,
    ref: str | Path | Iterable[str | Path] = (),
    hypotheses: str | Path | None = None,
    metric: str | Path | LoadedModel | Iterable[str | Path | LoadedModel] = (),
    tokenize: Literal["auto", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200", "spBLEU-1K", "none"] = "auto",
    lowercase: bool = False,
    by_length: bool = False,
    context: int | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    prefix: str | None = None,
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> Evaluation:
    """Score a model on the test data of its recipe, on `data`, or on its translations of `src`.

    Returns an `Evaluation`; with `src` or pairs, a `TranslationEvaluation`, which also has the
    `translations`. Its `scores` is a list of `Score`, each with `name`, `value`, the ends `low` and `high` of
    the 95 % interval (None where there is none), and `signature`: how it was computed. BLEU, chrF++, chrF,
    TER, accuracies, F1, exact matches and error rates are in percent, perplexity is that of a token, losses
    are in nats, and the errors of numbers have the unit of the labels. The score of BLEU has its
    `brevity_penalty`, its `precisions` and both lengths.

    Args:
        model: a model or run folder, or what `regard.load` gives; None is the included model.
        data: a file of test data in the format of the recipe's, a table of labelled texts (CSV, TSV, JSON
            Lines), or pairs in one table, which are scored as `src` and `ref`; NAME:FILE is a file of the
            catalogue.
        columns: the columns of `data`, by name or number from 0: source and target, or text and label; ()
            detects those of pairs, of a CSV file and of a table in another format than the recipe's, and is
            the recipe's of other files.
        src: a file to translate, one sentence a line; the translations are scored against `ref`.
        ref: one or several files of references, aligned with `src` line by line; none for a metric that reads
            sources alone (quality estimation).
        hypotheses: a file of translations that exist already, aligned with `ref`: they are scored, and no
            model translates. `src` is for metrics that read it, and for `by_length`.
        metric: one or several learned metrics, each a folder that `regard convert` writes of a COMET metric,
            or what `regard.load` returns; their scores come after the others.
        tokenize: sacreBLEU's tokeniser; "auto" is the one for the references' script, "none" is for text that
            is tokenised already.
        lowercase: ignore case; learned metrics never do.
        by_length: also give BLEU by the length of the source; only for translations.
        context: for a language model, the tokens before each one that is predicted, at least; its windows
            move by `task.block` - `context`. None is that of the recipe.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
            attention.
        source_lang: The language of the texts, for a model of many languages, by its code there, such
            as eng_Latn.
        target_lang: The language of the output, for a model of many languages, by its code.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Raises:
        DataError: a file cannot be read, files have different numbers of lines, or the data hold classes or
            features that the model does not know.
        RecipeError: the recipe names no test data, and `data` is None.
    """


def evaluate_sets(
    sets: str | Path,
    *,
    model: str | Path | LoadedModel | None = None,
    output: str | Path | None = None,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    metric: str | Path | LoadedModel | Iterable[str | Path | LoadedModel] = (),
    tokenize: Literal["auto", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200", "spBLEU-1K", "none"] = "auto",
    lowercase: bool = False,
    context: int | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    prefix: str | None = None,
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    done: Callable[[TaskRecord], None] | None = None,
) -> TaskProgress:
    """Score a model on many test sets, each as `evaluate` does.

    Args:
        sets: a TOML file with a table for each test set: its name, and `src` and `ref`, or `data`. Paths are
            relative to the file.
        model: a model or run folder, or what `regard.load` gives; None is the included model.
        output: a folder or an address for the scores and translations; what is there is not computed again.
        metric: one or several learned metrics, of all sets of sources and references; see `evaluate`.
        tokenize: sacreBLEU's tokeniser, of the same sets.
        lowercase: ignore case in them.
        context: of test data of a language model; see `evaluate`.
        done: is called after each test set.
        shard: Do every Nth run or test set only, from the Ith on; all processes share a folder.
        on: Do all runs or test sets by processes of a cluster: ray://HOST:PORT; ray is the cluster of
            RAY_ADDRESS or of this machine, or a new one here; local is this process.
        processes: With a cluster: how many at a time. [default: as many as have a core, or a GPU]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
            attention.
        source_lang: The language of the texts, for a model of many languages, by its code there, such
            as eng_Latn.
        target_lang: The language of the output, for a model of many languages, by its code.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Raises:
        RecipeError: the file of sets cannot be read. DataError: a file of a set is missing or cannot be read,
            or the output is that of other sets, models or settings. RunError: sets could not be scored on an
            engine.
    """


class Filler(_Filler):
    """A model, loaded once, that predicts masked tokens. A prediction depends on its text alone.

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model does not predict masked tokens.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        top: int = 5,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            allow_fresh_head: Accept a model whose head is untrained.
            top: Give that many predictions for each masked token.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


@overload
def fill(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int = 5,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, float]]]:
    """For each masked token of a text a list of (token, probability), most probable first; or of each text.

    A masked token is written [MASK] or <mask>, or by the model's own name for it. For many calls keep a
    `Filler`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many predictions for each masked token.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: the model does not predict masked tokens.
        DataError: a text is not a str, has no masked token, or is too long.
    """

@overload
def fill(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int = 5,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[list[tuple[str, float]]]]:
    ...


def fill_file(
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int = 5,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[list[tuple[str, float]]]]:
    """The answers of `fill` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many predictions for each masked token.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


class Generator(_Generator):
    """A model, loaded once, that continues texts, or answers messages by its chat template.

    A prompt is a text. With `chat` it is a message of the user, or a conversation: a list of messages such as
    {"role": "user", "content": "Hello"}. A continuation depends on its prompt and the seed alone, not on the
    batch. Controls that are not given are the model's own, from its generation.json. A draft model stays
    float32.

    Args:
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.

    Raises:
        FolderError: the model does not continue texts, or has no chat template. ConfigError: a control cannot
            work, or contradicts another. RecipeError: there is no int8 on this device.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        beam_size: int | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        ban_ids: Sequence[str | int] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        rules: Sequence[str] = (),
        search: str | None = None,
        num: int = 1,
        chat: bool = False,
        system: str | None = None,
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "bfloat16", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given have the model's defaults.

        Args:
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            early_stopping: Stop a beam when as many hypotheses as its size have finished.
            heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
                present length, scores below the worst of them.
            beam_groups: Split the beam into that many groups that avoid each other's tokens.
            diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
            must_contain: Force this text, or one of several with | between them.
            sample: Sample at random, or search. [default: the model's own]
            temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
            top_k: Sample from the K most probable tokens; 0: from all.
            top_p: Sample from the most probable tokens whose probabilities add up to P.
            min_p: Sample from the tokens at least P times as probable as the most probable.
            typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
            seed: The seed of the samples. [default: 0]
            mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
            mbr_samples: How many samples for minimum Bayes risk. [default: 32]
            length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
            presence_penalty: Subtract X from the logit of each token in the output.
            frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
            no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
            no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
            ban: Never output this text as words of their own, however cut into tokens; longer words may
                contain it.
            ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
            boost: Add X to the logits of this text (below 0: subtract).
            min_new_tokens: The least number of new tokens.
            max_new_tokens: The greatest number of new tokens. [default: the model's own]
            max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: Stop before this text.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
                stays the same.
            draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
                the same.
            draft_tokens: How many tokens the draft model proposes. [default: 4]
            rules: Apply the registered decoding rule of this name.
            search: Decode by the registered search of this name. [default: by beam size and sampling]
            chat: Answer each prompt as a user's message, by the model's chat template.
            system: The system message at the beginning of each conversation.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
                "bfloat16" on a GPU.
        """


@overload
def generate(  # pyright: ignore[reportOverlappingOverload]
    prompt: str | Sequence[Mapping[str, str]],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: Literal[1] = 1,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> str:
    """The prompt and its continuation, or those of each prompt of several; with `chat` the answer alone.

    For many calls, or to stream the text, keep a `Generator`. Of several prompts an empty one stays empty if
    the model has no begin token.

    Args:
        prompt: one text to continue, or several. With `chat` a message of the user, or a conversation (a list
            of messages such as {"role": "user", "content": "Hello"}), or several.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        chat: Answer each prompt as a user's message, by the model's chat template.
        system: The system message at the beginning of each conversation.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Returns:
        str for a str, list[str] for several; with `num` above 1 list[str] and list[list[str]].
    """

@overload
def generate(  # pyright: ignore[reportOverlappingOverload]
    prompt: str | Sequence[Mapping[str, str]],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: int,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def generate(  # pyright: ignore[reportOverlappingOverload]
    prompt: Iterable[str | Sequence[Mapping[str, str]]],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: Literal[1] = 1,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def generate(  # pyright: ignore[reportOverlappingOverload]
    prompt: Iterable[str | Sequence[Mapping[str, str]]],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: int,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[list[str]]:
    ...


@overload
def generate_file(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: Literal[1] = 1,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    """The answers of `generate` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a prompt.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        chat: Answer each prompt as a user's message, by the model's chat template.
        system: The system message at the beginning of each conversation.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.
    """

@overload
def generate_file(  # pyright: ignore[reportOverlappingOverload]
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: int,
    chat: bool = False,
    system: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[list[str]]:
    ...


def load(
    model: str | Path | LoadedModel | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
) -> Loaded:
    """Load the model of a model folder, a run folder, or a Hugging Face folder of a known family.

    Every verb takes the result as its `model`.

    Args:
        model: a folder; None is the included model.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """


class Looker(_Looker):
    """A loaded model, for looks at many texts.

    Threads may share a looker; they use the model in turn.

    Args:
        model: a model or run folder, or the result of `regard.load`; by default the included model.

    Raises:
        FolderError: there are no looks for this kind of model.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """

    def look(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        text: str,
        *,
        target: str | None = None,
        prefix: str | None = None,
        prefix_ids: Sequence[int] | None = None,
        beam_size: int | None = None,
        max_new_tokens: int | None = None,
        changes: Changes | None = None,
    ) -> Look:
        """What the model does with a text; see `look`.

        Args:
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        """


def look(
    text: str,
    model: str | Path | LoadedModel | None = None,
    *,
    target: str | None = None,
    prefix: str | None = None,
    prefix_ids: Sequence[int] | None = None,
    beam_size: int | None = None,
    max_new_tokens: int | None = None,
    changes: Changes | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Look:
    """What a model does with one text: attention, alignment, predictions, beam and more.

    For an image classifier `text` is FILE:NUMBER, an image counted from 0.

    `look.paths()` names the resources, and `look.get(path)` computes one on first use. The model answers by
    itself; `target` forces another answer, `prefix` (or `prefix_ids`) the beginning of one. `changes`
    switches heads, layers or tokens off. For many texts keep a `Looker`.

    Args:
        text: the input.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        target: an answer to force; an empty one of a decoder-only model: look at the text alone.
        prefix: the beginning of an answer to force.
        prefix_ids: the same as token ids.
        max_new_tokens: limit of a decoder-only model's continuation; by default 24, or what fits its length.
        changes: heads, layers and tokens to switch off.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: there are no looks for this kind of model. DataError: the text is empty or too long.
    """


def plot_alignment(
    text: str,
    *,
    out: str | Path,
    model: str | Path | LoadedModel | None = None,
    target: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    size: Literal["screen", "column", "page"] = "screen",
) -> Path:
    """Draw the attention from each token of the answer, or of `target`, to the source tokens.

    Args:
        text: the input.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        target: an answer to force; by default the model's own.
        size: "screen": cells of one size; "column", "page": as wide as one or two columns of a paper.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        FolderError: the model has no attention to a source. MissingExtra: matplotlib is not installed.
    """


def plot_attention(
    text: str,
    *,
    out: str | Path,
    model: str | Path | LoadedModel | None = None,
    attention: str | None = None,
    heads: Sequence[int] = (),
    target: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    size: Literal["screen", "column", "page"] = "screen",
) -> Path:
    """Draw the weights of each head of one attention for `text`.

    Labels do not overlap. If there are too many tokens for labels of a legible size, only every second one
    has a label, or every third, ...; the name of the axis says so.

    Args:
        text: the input.
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default the included model.
        attention: its name, such as decoder.blocks.1.cross_attention; by default the last.
        heads: their numbers from 0; by default all.
        target: an answer to force; by default the model's own. "": a decoder-only model's text alone.
        size: "screen": cells of one size; "column", "page": as wide as one or two columns of a paper.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        ConfigError: the model has no such attention or head. MissingExtra: matplotlib is not installed.
    """


def plot_positions(
    *,
    out: str | Path,
    model: str | Path | LoadedModel | None = None,
    scheme: Literal["sinusoidal", "rotary", "alibi"] = "sinusoidal",
    length: int = 64,
    d_model: int = 128,
    num_heads: int = 4,
    device: str = "auto",
    threads: int | None = None,
) -> Path:
    """Draw the first `length` positions of a model, or of a scheme that needs no training.

    "sinusoidal" and "rotary" have a table, some of its columns as waves (of at most 128 positions), and the
    similarity of each two positions. "alibi" has a line for each head: what it adds to the score of a key
    that is so many positions before the query. It is the paper's, for causal attention. The variant of an
    encoder has two directions; it is drawn for a `model` that is an encoder with ALiBi.

    Args:
        out: the figure to write: .svg, .png or .pdf.
        model: a model or run folder, or the result of `regard.load`; by default `scheme` is drawn.
        scheme: "sinusoidal", "rotary" or "alibi" (causal); for learned positions give a model.
        length: number of positions.
        d_model: width of the scheme.
        num_heads: heads of the scheme.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        ConfigError: the model has no positions. MissingExtra: matplotlib is not installed.
    """


def score(
    *,
    model: str | Path | LoadedModel | None = None,
    input: str | Path | None = None,
    column: str | None = None,
    src: str | Path | None = None,
    ref: str | Path | None = None,
    data: str | Path | None = None,
    columns: Sequence[str | int] = (),
    batch_tokens: int = 4096,
    prefix: str | None = None,
    begin: bool | None = None,
    end: bool | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> LineScores:
    """The log-probability of each line of `ref` as the translation of that line of `src`, or of pairs.

    A source is encoded as by `translate`. A language model gives the log-probability of each text of `input`,
    or of each line of `ref` as what follows that line of `src`, a prompt; `TextScorer` says which tokens are
    predicted.

    Returns a `LineScores`. Its `scores` has a `ForcedScore` for each line, in order: `log_prob` is the sum
    of `token_log_probs`, in nats (natural logarithms, at most 0), and `num_tokens` their number; the last of
    a translation is the end of the sentence. `perplexity` is that of a token, over all lines.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        input: of a language model: a file of texts, one a line.
        column: the column of `input`, a table, that has the texts.
        src: a file of sources, one sentence a line, or of prompts.
        ref: a file of their translations or completions, aligned line by line.
        data: pairs in one file (TSV, CSV, JSON Lines), instead of both.
        columns: its columns of source and translation, or of prompt and completion, by name or number from 0;
            () detects them.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        begin: Of a language model: predict the first token of a text, too, from the token that begins
            texts. [default: if the model was trained so]
        end: Of a language model: predict the end of a text, too. [default: if regard trained the model
            so]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: the files have different numbers of lines, or a line is too long.
        UserError: there is neither a pair of files nor one file of pairs, or both; or one of texts for a
            model that translates.
        FolderError: the model does neither.
    """


class TextScorer(_TextScorer):
    """A language model, loaded once, that scores texts. A score depends on its text alone.

    Each token is predicted from those before it. If the model was trained on texts with a begin and an end
    (`begin` in its generation.json), the first token is predicted from the begin token, and the end of the
    text is predicted, too. The end is not if the model is from a Hugging Face folder: other tools do not
    count it. Without a begin the first token has none before it and is not predicted, nor is an end. The
    options `begin` and `end` decide otherwise.
    A text of more tokens than the model was trained on is read in windows, as `regard.evaluate` reads it.

    A masked language model masks one token after the other, and predicts it from all others; the sum is the
    pseudo-log-likelihood (Salazar et al. 2020).

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model is no language model. UserError: an option is for other models.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        batch_tokens: int = 4096,
        prefix: str | None = None,
        begin: bool | None = None,
        end: bool | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            prefix: The text before each source, such as >>fra<<. [default: the model's own]
            begin: Of a language model: predict the first token of a text, too, from the token that begins
                texts. [default: if the model was trained so]
            end: Of a language model: predict the end of a text, too. [default: if regard trained the model
                so]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


def classify_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    as_json: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int = 1,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Classify the lines of many files, or one shard of them; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many classes, most probable first: LINE, LABEL, PROBABILITY, separated by tabs.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def embed_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    as_json: bool = False,
    batch_tokens: int = 4096,
    layer: int | None = None,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Embed the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        layer: Give the mean of the states after this layer (0: the embeddings), of length as it is, as
            probes read it. [default: the vector of the model]
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def fill_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    as_json: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    top: int = 5,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Predict masked tokens in the lines of many files, or one shard; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        top: Give that many predictions for each masked token.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def generate_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    num: int = 1,
    as_json: bool = False,
    chat: bool = False,
    system: str | None = None,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Continue the lines of many files, or one shard of them, as JSON; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
        as_json: must be True: a text may have several lines.
        done: is called after each part.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        chat: Answer each prompt as a user's message, by the model's chat template.
        system: The system message at the beginning of each conversation.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.
    """


def score_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel | None = None,
    as_json: bool = False,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    begin: bool | None = None,
    end: bool | None = None,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Score the pairs of many files, or one shard of them; `jobs_merge` makes one file of all.

    A pair is a line: SOURCE and TRANSLATION, separated by a tab. Of a language model a line is a text.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        begin: Of a language model: predict the first token of a text, too, from the token that begins
            texts. [default: if the model was trained so]
        end: Of a language model: predict the end of a text, too. [default: if regard trained the model
            so]
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def summarize_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    as_json: bool = False,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int = 1,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Summarize the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.
    """


def tag_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    words: bool = False,
    as_json: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Label the words of the lines of many files, or one shard of them; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        words: split a line at white space only.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def translate_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    as_json: bool = False,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int = 1,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Translate the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        done: is called after each part.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
            attention.
        source_lang: The language of the texts, for a model of many languages, by its code there, such
            as eng_Latn.
        target_lang: The language of the output, for a model of many languages, by its code.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        split: Translate each sentence alone; auto: of a text always, of a line of a file if it is
            longer than the lines that the model was trained on.
        glossary: Require terms in the translations: a file with a source term, a tab and a target term
            in each line, or CSV.
        keep: Leave what matches this regular expression as it is; placeholders: {name}, ${x}, %s, <0>,
            URLs and e-mail addresses; none: nothing. [default: placeholders in subtitles, HTML and
            Markdown, nothing in lines]
        engine: Compute by regard, or by CTranslate2 (an extra), which stops a beam as early_stopping
            does.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.
    """


class Summarizer(_Summarizer):
    """A model, loaded once, that summarizes documents, one in each line.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        beam_size: int | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        ban_ids: Sequence[str | int] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        rules: Sequence[str] = (),
        search: str | None = None,
        batch_tokens: int = 4096,
        prefix: str | None = None,
        workers: int | None = None,
        n_best: int = 1,
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "bfloat16", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given have the model's defaults.

        Args:
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            early_stopping: Stop a beam when as many hypotheses as its size have finished.
            heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
                present length, scores below the worst of them.
            beam_groups: Split the beam into that many groups that avoid each other's tokens.
            diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
            must_contain: Force this text, or one of several with | between them.
            sample: Sample at random, or search. [default: the model's own]
            temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
            top_k: Sample from the K most probable tokens; 0: from all.
            top_p: Sample from the most probable tokens whose probabilities add up to P.
            min_p: Sample from the tokens at least P times as probable as the most probable.
            typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
            seed: The seed of the samples. [default: 0]
            mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
            mbr_samples: How many samples for minimum Bayes risk. [default: 32]
            length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
            presence_penalty: Subtract X from the logit of each token in the output.
            frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
            no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
            no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
            ban: Never output this text as words of their own, however cut into tokens; longer words may
                contain it.
            ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
            boost: Add X to the logits of this text (below 0: subtract).
            min_new_tokens: The least number of new tokens.
            max_new_tokens: The greatest number of new tokens. [default: the model's own]
            max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: Stop before this text.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
                stays the same.
            draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
                the same.
            draft_tokens: How many tokens the draft model proposes. [default: 4]
            rules: Apply the registered decoding rule of this name.
            search: Decode by the registered search of this name. [default: by beam size and sampling]
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            prefix: The text before each source, such as >>fra<<. [default: the model's own]
            workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
                set]
            n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
                at least as wide.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
                "bfloat16" on a GPU.
        """


@overload
def summarize(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> str:
    """The summary of a text, or of each text of several. For many calls keep a `Summarizer`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """

@overload
def summarize(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def summarize(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: Literal[1] = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def summarize(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[list[str]]:
    ...


def summarize_file(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    as_json: bool = False,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> int:
    """Summarize each line of a file into another, which appears when it is complete; returns the line count.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write, gzipped if its name ends with .gz; not the input.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.
    """


def sweep(
    recipe: str | Path,
    values: Sequence[str] | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    workers: int = 1,
    quiet: bool = False,
    done: Callable[[TaskRecord], None] | None = None,
) -> TaskProgress:
    """Train a recipe with each combination of the values of some settings, each as `train` does.

    A run that was stopped is resumed, one that is done is left out. A run that fails is reported, and the
    others are done. The same folder takes more values of the same settings.

    Args:
        recipe: a TOML file, or the name of a recipe that comes with regard.
        values: a list of values for each setting, as in `{"training.seed": [1, 2]}`; or for each a text
            `section.key=value,value`, in which a value is what `overrides` have.
        out: the folder of the run folders; None is `runs/NAME-sweep`.
        overrides: settings `section.key=value` of all runs.
        init: a pretrained model to start from, a model or run folder.
        workers: processes of a machine that train each run together.
        quiet: print warnings only.
        done: is called after each run.
        shard: Do every Nth run or test set only, from the Ith on; all processes share a folder.
        on: Do all runs or test sets by processes of a cluster: ray://HOST:PORT; ray is the cluster of
            RAY_ADDRESS or of this machine, or a new one here; local is this process.
        processes: With a cluster: how many at a time. [default: as many as have a core, or a GPU]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        UserError: a setting, or the recipe with one of the combinations, cannot be used; or the folder
            belongs to another sweep. RunError: runs have failed. Interrupted: a signal stopped one.
    """


class Tagger(_Tagger):
    """A model, loaded once, that labels words. A label depends on its sentence alone.

    A sentence is a list of its words, or a text: words are then separated by white space, and punctuation at
    their ends is a word of its own. `column`: the CoNLL-U column of the labels, as in the training data.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            allow_fresh_head: Accept a model whose head is untrained.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


def tag(
    text: str | Sequence[str],
    *,
    model: str | Path | LoadedModel,
    words: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[tuple[str, str]]:
    """The words of a sentence, each with its label. For many sentences keep a `Tagger`.

    Args:
        text: the sentence: a list of its words, or a text, which is split at white space and punctuation.
        model: a model or run folder, or what `regard.load` returns.
        words: split a text at white space only.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: the list holds sentences, not words.
        FolderError: the model labels no words, or its head is untrained and `allow_fresh_head` is not set.
    """


def tag_file(
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    conllu: bool = False,
    words: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, str]]]:
    """The answers of `tag` to the lines of a file, plain or gzipped, or to the sentences of a CoNLL-U file.

    `Tagger.conllu` gives the lines of CoNLL-U back, with the labels filled in.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a sentence. A file
            called *.bio, *.iob, *.iob2 or *.conll has a word on each line, and labels, which are not read.
        model: a model or run folder, or what `regard.load` returns.
        conllu: read CoNLL-U, even if the file is not called *.conllu or *.conllu.gz.
        words: split lines at white space only.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        allow_fresh_head: Accept a model whose head is untrained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
    """


def tokenize_corpus(
    recipe: str | Path,
    input: str | Path,
    output: str | Path,
    *,
    overrides: Sequence[str] = (),
    shard: str | None = None,
    on: str | None = None,
    processes: int | None = None,
    part_megabytes: float | None = None,
    column: str | None = None,
    into: str | None = None,
    done: Callable[[PartDone], None] | None = None,
) -> ShardReport:
    """Tokenise the lines of many files, or one shard of them, for a training with `data.tokens = output`.

    The tokenisers are those of the recipe's `model.init`, or are trained by its `[tokenizer]` on a million
    lines.

    Args:
        recipe: a recipe of a translation or a language model: a TOML file, or the name of one that comes with
            regard. What counts are `[tokenizer]` and `model.init`, and of a translation `[data.lines]` and
            `batches.max_tokens`.
        input: a path or an address, or a pattern of them. A line is a source and its target with a tab
            between, or a document; or `column` names the two columns of tables, or the one.
        output: the folder that all shards share, a path or an address.
        overrides: settings `section.key=value` that replace those of the recipe.
        done: is called after each part.
        shard: Do part I of N of the input, a pattern of files; the output is a folder that all N share.
            What is done there is left out.
        on: Do all of the input, a pattern of files, into the output, a folder, by processes of a
            cluster: ray://HOST:PORT; ray is the cluster of RAY_ADDRESS or of this machine, or a new one
            here; local is this process.
        processes: With a cluster: how many processes have a model each. [default: as many as have a
            core, or a GPU]
        part_megabytes: With a shard or an engine: the input of a part, whose output is kept as soon as
            it is done. [default: a 64th of all, from 0.016 to 4]
        column: The column of a table (.csv, .tsv, .jsonl) that has the texts, by its name or number.
            With a shard or an engine the input are tables (.tsv, .jsonl, .parquet; no .csv), and the
            output are the same tables with one more column.
        into: With a column and an output that is a table: the name of the column that is added, or the
            first of several. [default: translation, summary, continuation, vector, label (of a number:
            value), words, masks or log_prob]

    Raises:
        RecipeError: the recipe is that of another task. DataError: there is no such input, an input has
            changed, or the folder belongs to another job.
    """


def train(
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    device: str = "auto",
    threads: int | None = None,
    workers: int = 1,
    quiet: bool = False,
    on_report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainResult:
    """Train a recipe, or resume a run.

    A run folder with the same recipe is resumed, one with another recipe is refused. Some settings may
    differ, such as `training.max_steps`, which makes the run longer or shorter, and `validate_every`
    (docs/training.md). A folder in which no training has begun, because its recipe had a mistake, takes the
    new recipe.

    Args:
        recipe: a TOML file, the name of a recipe that comes with regard, or a run folder to resume.
        out: the run folder; None is `runs/NAME`.
        overrides: settings `section.key=value` that replace those of the recipe.
        init: a pretrained model to start from, a model or run folder; None is `model.init` of the recipe.
        resume: raise an error if there is no run to resume.
        dry_run: read all data, build the model, do some updates, and print the time and memory of the run;
            keep nothing.
        workers: processes of this machine that train together. Two processes of one thread are often faster
            than one of two. Under torchrun leave it 1: torchrun starts the processes.
        quiet: print warnings only: no notes, no progress, no scores.
        on_report: called with each record of `metrics.jsonl` when it is written: records of `kind` "train"
            every `training.report_every` updates, "validation", "collapse" and others; with `training.refit`
            those of the second run follow, from step 1 on. An exception in it ends the training. If several
            processes train, only the first calls it.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        UserError: the recipe, the data or the folder cannot be used.
        RunError: training failed.
        Interrupted: a signal stopped it.
    """


class Transcriber(_Transcriber):
    """A model, loaded once, that transcribes. A transcript does not depend on the batch of its recording.

    Args:
        model: a model or run folder, a Hugging Face folder of Whisper, or what `regard.load` gives.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        language: str | None = None,
        task: Literal["transcribe", "translate"] | None = None,
        timestamps: bool = False,
        beam_size: int | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Args:
            language: The language that is spoken, such as de or german, for a model of many. [default: the
                model's own, or what it detects in the first window]
            task: Transcribe, or translate into English, with a model that does both. [default: the model's
                own]
            timestamps: Give each segment with its beginning and end: SECONDS, SECONDS, TEXT, separated by
                tabs.
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
        """


def transcribe(
    input: str | Path | Sequence[ndarray],
    *,
    model: str | Path | LoadedModel,
    language: str | None = None,
    task: Literal["transcribe", "translate"] | None = None,
    timestamps: bool = False,
    beam_size: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> list[str]:
    """The transcript of each recording in a file, or in a list of arrays.

    A model like Whisper reads a sound file (WAV, FLAC, MP3, Ogg), or arrays of samples at its rate; another
    model an NPZ file (arrays `frames` and `lengths`), or arrays frames x features. Labels of the latter are
    separated by spaces. For times, and for many calls, keep a `Transcriber`.

    Args:
        input: the file, or arrays.
        model: a model or run folder, a Hugging Face folder of Whisper, or what `regard.load` gives.
        language: The language that is spoken, such as de or german, for a model of many. [default: the
            model's own, or what it detects in the first window]
        task: Transcribe, or translate into English, with a model that does both. [default: the model's
            own]
        timestamps: Give each segment with its beginning and end: SECONDS, SECONDS, TEXT, separated by
            tabs.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]

    Raises:
        DataError: the file is damaged, or not what the model reads.
        FolderError: the model does not transcribe. ConfigError: it has no such language or task.
    """


class Translator(_Translator):
    """A model, loaded once, that translates lines.

    A translation depends on its line alone: not on the batch, the other lines or the number of workers.

    A model is trained on lines that mostly hold one sentence. `split` decides about lines of several: "on"
    translates each sentence alone and joins the translations, "off" leaves lines as they are, and "auto"
    splits the texts of `texts`, and of other lines those longer than the model was trained on (`split_above`
    in its generation.json) or can read. Length limits and penalties then apply to each sentence.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        beam_size: int | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        ban_ids: Sequence[str | int] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        rules: Sequence[str] = (),
        search: str | None = None,
        replace_unk: bool = False,
        source_lang: str | None = None,
        target_lang: str | None = None,
        batch_tokens: int = 4096,
        prefix: str | None = None,
        workers: int | None = None,
        n_best: int = 1,
        split: Literal["auto", "on", "off"] = "auto",
        glossary: str | Path | None = None,
        keep: Sequence[str] = (),
        engine: Literal["regard", "ctranslate2"] = "regard",
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "bfloat16", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given have the model's defaults.

        Args:
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            early_stopping: Stop a beam when as many hypotheses as its size have finished.
            heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
                present length, scores below the worst of them.
            beam_groups: Split the beam into that many groups that avoid each other's tokens.
            diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
            must_contain: Force this text, or one of several with | between them.
            sample: Sample at random, or search. [default: the model's own]
            temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
            top_k: Sample from the K most probable tokens; 0: from all.
            top_p: Sample from the most probable tokens whose probabilities add up to P.
            min_p: Sample from the tokens at least P times as probable as the most probable.
            typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
            seed: The seed of the samples. [default: 0]
            mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
            mbr_samples: How many samples for minimum Bayes risk. [default: 32]
            length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
            presence_penalty: Subtract X from the logit of each token in the output.
            frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
            no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
            no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
            ban: Never output this text as words of their own, however cut into tokens; longer words may
                contain it.
            ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
            boost: Add X to the logits of this text (below 0: subtract).
            min_new_tokens: The least number of new tokens.
            max_new_tokens: The greatest number of new tokens. [default: the model's own]
            max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: Stop before this text.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
                stays the same.
            draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
                the same.
            draft_tokens: How many tokens the draft model proposes. [default: 4]
            rules: Apply the registered decoding rule of this name.
            search: Decode by the registered search of this name. [default: by beam size and sampling]
            replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
                attention.
            source_lang: The language of the texts, for a model of many languages, by its code there, such
                as eng_Latn.
            target_lang: The language of the output, for a model of many languages, by its code.
            batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
            prefix: The text before each source, such as >>fra<<. [default: the model's own]
            workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
                set]
            n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
                at least as wide.
            split: Translate each sentence alone; auto: of a text always, of a line of a file if it is
                longer than the lines that the model was trained on.
            glossary: Require terms in the translations: a file with a source term, a tab and a target term
                in each line, or CSV.
            keep: Leave what matches this regular expression as it is; placeholders: {name}, ${x}, %s, <0>,
                URLs and e-mail addresses; none: nothing. [default: placeholders in subtitles, HTML and
                Markdown, nothing in lines]
            engine: Compute by regard, or by CTranslate2 (an extra), which stops a beam as early_stopping
                does.
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
                "bfloat16" on a GPU.
        """


@overload
def translate(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: Literal[1] = 1,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> str:
    """The translation of a text, or of each text of several, by `model` or the included model.

    A text may have several sentences and lines: each sentence is translated alone, and the translations are
    joined by the spaces and line breaks between the sentences; with `split` "off" each line is. For many
    calls keep a `Translator`, which also gives scores.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
            attention.
        source_lang: The language of the texts, for a model of many languages, by its code there, such
            as eng_Latn.
        target_lang: The language of the output, for a model of many languages, by its code.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        split: Translate each sentence alone; auto: of a text always, of a line of a file if it is
            longer than the lines that the model was trained on.
        glossary: Require terms in the translations: a file with a source term, a tab and a target term
            in each line, or CSV.
        keep: Leave what matches this regular expression as it is; placeholders: {name}, ${x}, %s, <0>,
            URLs and e-mail addresses; none: nothing. [default: placeholders in subtitles, HTML and
            Markdown, nothing in lines]
        engine: Compute by regard, or by CTranslate2 (an extra), which stops a beam as early_stopping
            does.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """

@overload
def translate(  # pyright: ignore[reportOverlappingOverload]
    text: str,
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def translate(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: Literal[1] = 1,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[str]:
    ...

@overload
def translate(  # pyright: ignore[reportOverlappingOverload]
    text: Iterable[str],
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> list[list[str]]:
    ...


def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel | None = None,
    beam_size: int | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    ban_ids: Sequence[str | int] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    rules: Sequence[str] = (),
    search: str | None = None,
    as_json: bool = False,
    file_format: Literal["lines", "srt", "vtt", "html", "markdown"] | None = None,
    replace_unk: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    batch_tokens: int = 4096,
    prefix: str | None = None,
    workers: int | None = None,
    n_best: int = 1,
    split: Literal["auto", "on", "off"] = "auto",
    glossary: str | Path | None = None,
    keep: Sequence[str] = (),
    engine: Literal["regard", "ctranslate2"] = "regard",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> int:
    """Translate a file into another, which appears when it is complete; returns the line count.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text, except of
            subtitles, HTML and Markdown.
        output: the file to write, gzipped if its name ends with .gz; not the input.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        file_format: lines, srt, vtt, html or markdown; by the file's name by default.
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        early_stopping: Stop a beam when as many hypotheses as its size have finished.
        heuristic_stopping: Stop a beam when as many have finished, and the best of the others, at its
            present length, scores below the worst of them.
        beam_groups: Split the beam into that many groups that avoid each other's tokens.
        diversity: The penalty of a token for each hypothesis of an earlier group that takes it.
        must_contain: Force this text, or one of several with | between them.
        sample: Sample at random, or search. [default: the model's own]
        temperature: Below 1 probable tokens become more probable; 0 takes the most probable.
        top_k: Sample from the K most probable tokens; 0: from all.
        top_p: Sample from the most probable tokens whose probabilities add up to P.
        min_p: Sample from the tokens at least P times as probable as the most probable.
        typical_p: Sample from the tokens of most typical information whose probabilities add up to P.
        seed: The seed of the samples. [default: 0]
        mbr: Of many samples take the one most similar to the others (minimum Bayes risk).
        mbr_samples: How many samples for minimum Bayes risk. [default: 32]
        length_penalty: Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        repetition_penalty: Above 1: tokens of the text or its prompt become less likely (as in CTRL).
        presence_penalty: Subtract X from the logit of each token in the output.
        frequency_penalty: Subtract X from the logit of a token for each time that it is in the output.
        no_repeat_ngram_size: Never repeat N tokens in the same order; 0 allows it.
        no_repeat_source_ngram_size: Never copy N tokens of the source in the same order; 0 allows it.
        ban: Never output this text as words of their own, however cut into tokens; longer words may
            contain it.
        ban_ids: Never output these tokens (their numbers, with spaces between) one after another.
        boost: Add X to the logits of this text (below 0: subtract).
        min_new_tokens: The least number of new tokens.
        max_new_tokens: The greatest number of new tokens. [default: the model's own]
        max_context: A language model reads at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: Stop before this text.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Propose N tokens from the text so far and verify them in one step; the output
            stays the same.
        draft_model: Propose tokens by this smaller model and verify them in one step; the output stays
            the same.
        draft_tokens: How many tokens the draft model proposes. [default: 4]
        rules: Apply the registered decoding rule of this name.
        search: Decode by the registered search of this name. [default: by beam size and sampling]
        replace_unk: In place of each unknown token (<unk>) write the source word of the greatest
            attention.
        source_lang: The language of the texts, for a model of many languages, by its code there, such
            as eng_Latn.
        target_lang: The language of the output, for a model of many languages, by its code.
        batch_tokens: Padded tokens of a batch: changes speed and memory, not the output.
        prefix: The text before each source, such as >>fra<<. [default: the model's own]
        workers: Processes that share many lines. [default: one a core of a CPU; one where threads are
            set]
        n_best: Give that many candidates of each text: LINE, SCORE, TEXT, separated by tabs. A beam is
            at least as wide.
        split: Translate each sentence alone; auto: of a text always, of a line of a file if it is
            longer than the lines that the model was trained on.
        glossary: Require terms in the translations: a file with a source term, a tab and a target term
            in each line, or CSV.
        keep: Leave what matches this regular expression as it is; placeholders: {name}, ${x}, %s, <0>,
            URLs and e-mail addresses; none: nothing. [default: placeholders in subtitles, HTML and
            Markdown, nothing in lines]
        engine: Compute by regard, or by CTranslate2 (an extra), which stops a beam as early_stopping
            does.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU,
            "bfloat16" on a GPU.

    Raises:
        UserError: the name says that the file has a format that is not read.
    """


class Loaded(_Loaded):
    """A model that every verb takes as its `model`, with a method to look at what it does.
    """

    def look(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        text: str,
        *,
        target: str | None = None,
        prefix: str | None = None,
        beam_size: int | None = None,
        max_new_tokens: int | None = None,
        changes: Changes | None = None,
    ) -> Look:
        """What the model does with a text; a notebook displays the result. See `regard.look`.

        Args:
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        """
