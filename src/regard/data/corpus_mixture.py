"""Several corpora as one training corpus, and the share of each: by weights or by a temperature."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from regard.counted import counted
from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, Pair, open_corpus
from regard.errors import DataError, RecipeError
from regard.recipe import check_types

MOST_READS = 1000  # of an example in an epoch; more are a mistake in a weight


@runtime_checkable
class Weighted(Protocol):
    """The settings of one of several corpora."""

    @property
    def weight(self) -> float | None: ...


@runtime_checkable
class Named(Protocol):
    """A corpus with a name for messages, and a digest of everything that determines its examples."""

    @property
    def name(self) -> str: ...
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class MixedCorpusSettings(CorpusSettings):
    """One of several corpora to train on: a table `[[data.train]]` for each.

    `weight`: its share of the pairs that training reads, relative to the other corpora's weights: 3 and 1 are
    three quarters and a quarter. All corpora have one, or none.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_no_weight(self.weight, "pair")


def refuse_no_weight(weight: float | None, unit: str) -> None:
    """Raise a RecipeError for a weight that reads no `unit` of a corpus."""
    if weight is not None and not weight > 0:
        raise RecipeError(f"weight = {weight} reads no {unit}", "give a number above 0")


def chosen_mixture(
    train: Any, temperature: float | None, *, unit: str = "pair", instead: str | None = None
) -> "Mixture | None":
    """The mixture of `[data]`: None if `train` is not a list of corpora, each of examples called `unit`.

    `instead` is what `[data]` has in place of several corpora, `data.tokens`.

    Raises:
        RecipeError: the list is empty; or there is a temperature for one corpus, or besides weights, or some
            corpora alone have weights.
    """
    if train == ():
        raise RecipeError("data.train is an empty list", "give a table [[data.train]] for each corpus")
    if isinstance(train, tuple):
        return Mixture.of(train, temperature, unit)
    if temperature is not None:
        of_files = ", in place of data.tokens, which is one corpus" if instead is not None else ""
        raise RecipeError(
            "mixture_temperature is for several corpora",
            f"give a table [[data.train]] for each{of_files}",
        )
    return None


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """How often training reads the examples of each of several corpora.

    Attributes:
        weights: of each corpus; empty: the numbers of their examples to the power of 1 / `temperature`.
        temperature: 1 reads each example once an epoch; the larger it is, the more even are the shares
            (Arivazhagan et al. 2019, section 4.1).
        unit: an example, for messages: pair, block, text.
    """

    weights: tuple[float, ...] = ()
    temperature: float = 1.0
    unit: str = "pair"

    def __post_init__(self) -> None:
        check_types(self)

    @classmethod
    def of(
        cls,
        corpora: Sequence[Weighted],
        temperature: float | None,
        unit: str = "pair",
    ) -> "Mixture":
        """The mixture that a recipe describes.

        Raises:
            RecipeError: some corpora have weights and others none, or there is a temperature, too.
        """
        weights = tuple(each.weight for each in corpora if each.weight is not None)
        found = cls(weights=weights, temperature=1.0 if temperature is None else temperature, unit=unit)
        if weights and len(weights) < len(corpora):
            raise RecipeError(
                f"{len(weights)} of {len(corpora)} corpora of data.train have a weight",
                f"give each a weight, or none: then each {unit} is read once an epoch",
            )
        if temperature is not None and weights:
            raise RecipeError(
                "data.mixture_temperature is set, and the corpora of data.train have weights",
                "leave out the one or the other",
            )
        if temperature is not None and not temperature > 0:
            raise RecipeError(
                f"mixture_temperature = {temperature} is not above 0",
                f"1 reads each {unit} once an epoch, 5 reads small corpora more often",
            )
        return found

    def shares(self, sizes: Sequence[int]) -> Float[np.ndarray, " corpora"]:
        """The share of each corpus in the examples of an epoch, by the numbers of their examples."""
        weights = np.array(self.weights or sizes) / max(self.weights or sizes)
        weights = weights if self.weights else weights ** (1 / self.temperature)
        return weights / weights.sum()

    def reads(self, sizes: Sequence[int]) -> Int[np.ndarray, " corpora"]:
        """How many examples of each an epoch reads: as many together as the corpora have, one at least.

        Raises:
            RecipeError: an epoch would read each example of a corpus more than MOST_READS times.
        """
        total = sum(sizes)
        ends = np.rint(np.cumsum(self.shares(sizes)) * total).astype(np.int64)
        found = np.maximum(np.diff(ends, prepend=0), 1)
        for number, (reads, size) in enumerate(zip(found.tolist(), sizes, strict=True)):
            if reads > MOST_READS * size:
                raise RecipeError(
                    f"data.train[{number}] has {counted(size, self.unit)}, and an epoch of"
                    f" {counted(total, self.unit)} would read each {reads / size:,.0f} times",
                    "give it a smaller weight",
                )
        return found


class CorpusMixture(Corpus):
    """The pairs of several corpora, one corpus after the other.

    Attributes:
        corpora: the corpora.
    """

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        files = [file for each in corpora for file in each.files]
        super().__init__(" + ".join(each.name for each in corpora), lambda: (), LinePolicy(), files)
        self.corpora = tuple(corpora)

    def first(self, pairs: int) -> "CorpusMixture":
        """The first pairs of each corpus, about equally many, as a mixture."""
        return CorpusMixture([each.first(-(-pairs // len(self.corpora))) for each in self.corpora])

    def _pairs(self) -> Iterator[Pair]:
        self.skipped = Counter[str]()
        for each in self.corpora:
            yield from each
            self.skipped.update(each.skipped)

    def fingerprint(self) -> str:
        """A digest of everything that determines the pairs; the files' paths are not part of it."""
        return digest_of(self.corpora)


def digest_of(corpora: Sequence[Named]) -> str:
    """A digest of several corpora."""
    return hashlib.sha256("\n".join(each.fingerprint() for each in corpora).encode()).hexdigest()


def open_training_corpus(
    settings: CorpusSettings | tuple[MixedCorpusSettings, ...], policy: LinePolicy, base: Path
) -> Corpus:
    """The training corpus of a recipe, one or several; relative paths start at the folder `base`."""
    if isinstance(settings, CorpusSettings):
        return open_corpus(settings, policy, base)
    return CorpusMixture([open_corpus(each, policy, base) for each in settings])


def corpora_of(corpus: Corpus) -> tuple[Corpus, ...]:
    """The corpora of a mixture, or the only one."""
    return corpus.corpora if isinstance(corpus, CorpusMixture) else (corpus,)


def refuse_empty(corpus: Corpus, sizes: Sequence[int]) -> None:
    """Raise a DataError for a corpus of a mixture of which no pair is left."""
    for name, size in zip(names_of(corpora_of(corpus)), sizes, strict=True):
        if not size:
            raise DataError(f"{name}: no pair is left to train on", "leave this corpus out of data.train")


def described(mixture: Mixture, names: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    """A line for each corpus of a mixture: its examples, its share of an epoch, how often each is read."""
    reads = mixture.reads(sizes).tolist()
    for name, size, count in zip(names, sizes, reads, strict=True):
        yield (
            f"mixture: {name}: {counted(size, mixture.unit)}, {100 * count / sum(reads):.1f} % of the"
            f" {mixture.unit}s of an epoch, which reads each {count / size:.3g} times"
        )


def names_of(corpora: Sequence[Named]) -> list[str]:
    """The names of corpora, with the place in the recipe where two have one name."""
    names = [each.name for each in corpora]
    return [
        f"data.train.{number} ({name})" if names.count(name) > 1 else name
        for number, name in enumerate(names)
    ]
