"""Learned metrics: a model that scores translations, each a segment of its own."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from regard import console
from regard.data.batch import pad
from regard.data.texts import length_sorted_groups
from regard.errors import FolderError, UserError
from regard.evaluation.segment_scores import (
    SegmentComparison,
    SegmentScore,
    compare_segments,
    mean_score,
)
from regard.models.translation_metric import MetricInput, TranslationMetric
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.lines import chunks
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.weights.model_folder import LoadedModel
from regard.weights.toolkits.load import toolkit_of

MAX_CHARACTERS = 100_000  # of a text; more have more tokens than any encoder reads
BATCH_TOKENS = 4096  # padded tokens of a batch
CHUNK = 512  # segments that are sorted by length and scored together
DECIMAL_PLACES = 6  # of a score; rounding hides the last bits, which depend on the sizes of batches
FILES = ("config.json", "model.safetensors", "tokenizer.json")  # that determine the scores
HASH_DIGITS = 12

AnyMetrics = AnyModel | Iterable[AnyModel]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A translation, its source and its reference; None for what is not there."""

    translation: str
    source: str | None = None
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourcesAndReferences:
    """What translations are compared with, line by line: sources and references, if they are there."""

    sources: Sequence[str] | None = None
    references: Sequence[Sequence[str]] = ()  # [r][i] is reference r of line i

    def has(self, read: MetricInput) -> bool:
        """True if there are sources, or references."""
        return self.sources is not None if read == "source" else len(self.references) > 0

    def segment(self, number: int, translation: str) -> Segment:
        """The segment of this line, with the first reference."""
        return Segment(
            translation=translation,
            source=self.sources[number] if self.sources is not None else None,
            reference=self.references[0][number] if self.references else None,
        )


class LearnedMetric:
    """A metric, loaded once, that scores segments. But for rounding, a score depends on its segment alone.

    Args:
        model: the folder of a metric, which `regard convert` writes, or what `regard.load` returns.

    Raises:
        FolderError: the model is not a metric.
    """

    def __init__(self, model: AnyModel, runtime: Runtime = DEFAULT_RUNTIME) -> None:
        if not isinstance(model, LoadedModel):
            _refuse_unconverted(model)
        self.loaded = open_model(model, Runtime(device=runtime.device, threads=runtime.threads))
        self.model = model_that("scores translations", TranslationMetric, self.loaded)
        self.tokenizer = self.loaded.tokenizers.source
        self.name = self.loaded.path.resolve().name
        self._cut = 0  # segments of which not all is read

    def require(self, others: SourcesAndReferences) -> None:
        """Raise a UserError unless there is what the metric reads: sources, and one reference."""
        reads, joined = self.model.config.reads, self.model.config.joined
        missing = [each for each in reads if not others.has(each)]
        if missing and not (joined and len(missing) < len(reads)):
            argument = {"source": "src", "reference": "ref"}[missing[0]]
            raise UserError(
                f"{self.name} compares a translation with its {missing[0]}, which is not given",
                f"give {argument} (--{argument} FILE), or leave this metric out",
            )
        if "reference" in reads and len(others.references) > 1:
            raise UserError(
                f"{self.name} compares a translation with one reference, not with {len(others.references)}",
                "give one ref (--ref FILE), or leave this metric out",
            )

    def facts(self, others: SourcesAndReferences) -> str:
        """The beginning of a signature: what is read, the metric's name, the hash of its files."""
        reads = "+".join(each for each in self.model.config.reads if others.has(each))
        return f"reads:{reads}|metric:{self.name}|sha256:{self._hash()}"

    def scores(self, segments: Sequence[Segment]) -> list[float]:
        """The score of each segment; higher is better.

        Texts that occur several times near each other, as sources and references of several systems do, are
        encoded once.
        """
        device = self.model.device
        console.note(f"scoring {len(segments):,} translations by {self.name}; device: {device}")
        found: list[float] = []
        self._cut = 0
        with console.LinesProgress(len(segments)) as progress, torch.no_grad():
            for chunk in chunks(segments, CHUNK):
                found += [round(score, DECIMAL_PLACES) for score in self._scores(chunk).tolist()]
                progress.advance(len(chunk))
        if self._cut:
            console.warn(
                f"{self._cut:,} of {len(segments):,} segments are longer than {self.name} reads"
                f" ({self.model.config.text_limit} tokens a text): only their beginning is scored"
            )
        return found

    def _scores(self, segments: Sequence[Segment]) -> Float[Tensor, " segments"]:
        inputs: dict[tuple[str, ...], int] = {}  # the texts of each input -> its number
        rows = [
            [inputs.setdefault(texts, len(inputs)) for texts in self._inputs(segment)] for segment in segments
        ]
        encoded = [self._encoded(texts) for texts in inputs]
        cut = [is_cut for _, is_cut in encoded]
        self._cut += sum(any(cut[number] for number in row) for row in rows)
        vectors = self._vectors([ids for ids, _ in encoded])
        return self.model.estimate(vectors[torch.tensor(rows, device=vectors.device)])[:, 0]

    def _inputs(self, segment: Segment) -> list[tuple[str, ...]]:
        """The inputs of the encoder, each of one text, or of several that are joined."""
        texts = {"source": segment.source, "reference": segment.reference}
        read = [text for each in self.model.config.reads if (text := texts[each]) is not None]
        if not self.model.config.joined:
            return [(segment.translation,), *((text,) for text in read)]
        inputs: list[tuple[str, ...]] = [(segment.translation, text) for text in read]
        return [*inputs, (segment.translation, *read)] if len(read) > 1 else inputs

    def _encoded(self, texts: tuple[str, ...]) -> tuple[list[int], bool]:
        """The ids of an input, with two end tokens between texts; and whether some are left out.

        As in COMET, first each text is cut, then the input, which may so lose its end token.
        """
        limit, begin, end = self.model.config.text_limit, self.tokenizer.bos_id, self.tokenizer.eos_id
        ids = [self.tokenizer.encode(text[:MAX_CHARACTERS]) for text in texts]
        read = ids if limit is None else [each[: limit - 2] for each in ids]
        joined = [begin]
        for number, each in enumerate(read):
            joined += [*([end, end] if number else []), *each]
        joined.append(end)
        whole = joined[: self.model.max_length]
        return whole, read != ids or len(whole) < len(joined)

    def _vectors(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "rows d_model"]:
        device = self.model.device
        vectors = torch.zeros(len(rows), self.model.config.d_model, device=device)
        for numbers in length_sorted_groups([len(row) for row in rows], BATCH_TOKENS):
            ids, lengths = pad([rows[number] for number in numbers], self.tokenizer.pad_id)
            vectors[numbers] = self.model.vectors(ids.to(device), lengths.to(device)).float()
        return vectors

    def _hash(self) -> str:
        """A hash of the files that determine the scores, from the manifest; equal on all machines."""
        if self.loaded.folder is None:
            raise FolderError(
                f"{self.loaded.path} has no manifest", "convert it: regard convert DIR --out DIR"
            )
        files = self.loaded.folder.manifest["files"]
        whole = "".join(files[name]["sha256"] for name in FILES)
        return hashlib.sha256(whole.encode("ascii")).hexdigest()[:HASH_DIGITS]


def several_models(models: AnyMetrics) -> list[AnyModel]:
    """The models, of which there may be one, several or none."""
    return [models] if isinstance(models, str | Path | LoadedModel) else list(models)


def open_metrics(
    models: AnyMetrics, others: SourcesAndReferences, runtime: Runtime = DEFAULT_RUNTIME
) -> list[LearnedMetric]:
    """The metrics of these folders, one or several, which must have different names.

    Raises:
        FolderError: a model is not a metric, or two have the same name.
        UserError: a metric reads what `others` lacks.
    """
    metrics = [LearnedMetric(each, runtime) for each in several_models(models)]
    for metric in metrics:
        metric.require(others)
    names = [metric.name for metric in metrics]
    for metric in metrics:
        if names.count(metric.name) > 1:
            raise FolderError(
                f"two metrics have the name {metric.name}", "rename one of their folders: it is their name"
            )
    return metrics


def learned_score(
    metric: LearnedMetric, translations: Sequence[str], others: SourcesAndReferences
) -> SegmentScore:
    """The score of these translations, one for each line of `others`."""
    segments = [others.segment(number, text) for number, text in enumerate(translations)]
    return mean_score(metric.name, metric.scores(segments), metric.facts(others))


def learned_comparison(
    metric: LearnedMetric, systems: Mapping[str, Sequence[str]], others: SourcesAndReferences
) -> SegmentComparison:
    """The scores of several systems, the first of which is the baseline."""
    lines = zip(*systems.values(), strict=True)
    segments = [others.segment(number, text) for number, line in enumerate(lines) for text in line]
    scores = metric.scores(segments)  # line by line, so that a source is encoded once for all systems
    by_system = {name: scores[place :: len(systems)] for place, name in enumerate(systems)}
    return compare_segments(metric.name, by_system, metric.facts(others))


def _refuse_unconverted(model: AnyModel) -> None:
    """Raise a FolderError for a checkpoint of COMET itself."""
    toolkit = toolkit_of(Path(str(model)).expanduser())
    if toolkit is not None and toolkit.name == "comet":
        raise FolderError(
            f"{model} is a checkpoint of {toolkit.title}",
            f"convert it: regard convert {model} --trust-pickle --encoder DIR --out MODEL",
        )
