"""The sentences to translate, in a file that all contenders read; the base class of contenders."""

import json
import random
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Ids = list[int]
SEED = 1  # of the random choice of sentences


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Sources as text and as ids (without end tokens), references, and `limits` of output lengths."""

    model: str
    converted: str  # the folder for CTranslate2; or "!" and why there is none
    texts: list[str]
    ids: list[Ids]
    vocabulary: list[str]  # the pieces by their ids
    lengths: list[int]  # of the references, in tokens; used as forced lengths
    limits: list[int]
    alpha: float  # of the length penalty: the score is the log-probability by length^alpha

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def read(cls, path: str) -> "Sentences":
        return cls(**json.loads(Path(path).read_text("utf-8")))

    def places(self, count: int) -> list[int]:
        """A random choice of `count` sentences in the order of the test set."""
        drawn = random.Random(SEED).sample(range(len(self.ids)), min(count, len(self.ids)))
        return sorted(drawn)

    def batches(self, count: int, size: int) -> list[list[int]]:
        """Indices in batches of similar lengths, the longest first; single ones in the test set's order."""
        places = self.places(count)
        if size > 1:
            places.sort(key=lambda place: -len(self.ids[place]))
        return [places[start : start + size] for start in range(0, len(places), size)]

    def forced(self, batch: Sequence[int]) -> int:
        """The forced length of a batch's translations."""
        return max(1, round(statistics.mean(self.lengths[place] for place in batch)))


class Decoder(ABC):
    """A contender in translating. Loading and tokenising are not timed."""

    def __init__(self, *, sentences: str) -> None:
        self.sentences = Sentences.read(sentences)
        self._said: dict[int, Ids] = {}

    @abstractmethod
    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        """The translations of the sentences at these places, each of `length` tokens if that is given."""

    def decode_all(
        self, batches: Sequence[Sequence[int]], beam: int, lengths: Sequence[int | None]
    ) -> list[Any]:
        """The translations of each batch, and the seconds it took."""
        found = []
        for batch, length in zip(batches, lengths, strict=True):
            began = time.perf_counter()
            said = self.decode(batch, beam, length)
            found.append((said, time.perf_counter() - began))
        return found

    def round(self, *, count: int, size: int, beam: int, forced: bool, threads: int) -> dict[str, Any]:
        self.use(threads)
        batches = self.sentences.batches(count, size)
        lengths = [self.sentences.forced(batch) if forced else None for batch in batches]
        began, processor = time.perf_counter(), time.process_time()
        found = self.decode_all(batches, beam, lengths)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        self._said = {
            place: said
            for batch, (all_said, _) in zip(batches, found, strict=True)
            for place, said in zip(batch, all_said, strict=True)
        }
        return {
            "seconds": seconds,
            "processor": processor,
            "sentences": len(self._said),
            "tokens": sum(map(len, self._said.values())),
            "each": [taken for _, taken in found],
            "lengths": [[len(self.sentences.ids[place]), len(said)] for place, said in self._said.items()],
        }

    def said(self) -> dict[str, Ids]:
        """The translations of the last round by the places of the sentences, as ids."""
        return {str(place): said for place, said in self._said.items()}

    def use(self, threads: int) -> None:
        """Set the number of threads."""
        import torch

        torch.set_num_threads(threads)
