"""Translating by CTranslate2; the weights are exported once into the user's cache."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.rules import LengthLimits
from regard.errors import UserError
from regard.exports.certificate import Quantization
from regard.exports.ctranslate2_calls import Output, translations
from regard.exports.ctranslate2_folder import export_to_ctranslate2, pieces
from regard.exports.ctranslate2_layers import most_positions
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.ctranslate2_settings import refuse_other_settings
from regard.user_cache import user_cache
from regard.weights.folder import verify_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes


@dataclass(frozen=True, kw_only=True)
class EngineSearch:
    """A search that CTranslate2 has: a beam of `size`, 1 for greedy search, with |Y|^alpha as its penalty."""

    size: int
    n_best: int
    alpha: float
    never: tuple[int, ...]  # ids that are not put out
    limits: LengthLimits
    length_penalty: LengthPenalty  # of the scores that are returned


def cached_export(
    loaded: LoadedModel, quantization: Quantization, *, begins: Callable[[], None] = lambda: None
) -> Path:
    """The folder of a model in the user's cache; written, after `begins` is called, if it is not there.

    Its name has the hash of the weights in memory, so that a changed model is never another's.
    """
    refuse_other_settings(loaded.config)
    ctranslate2("engine = 'ctranslate2'")
    folder = user_cache("exports") / f"ctranslate2-{quantization}-{_digest(loaded)[:32]}"
    try:
        verify_folder(folder)
    except UserError:
        begins()
        export_to_ctranslate2(loaded, folder, quantization=quantization)
    return folder


class CTranslate2Engine:
    """The translator of an exported folder.

    `workers` batches are computed at a time, each by `threads` threads. The model reads `positions` tokens.
    """

    def __init__(self, folder: Path, loaded: LoadedModel, *, workers: int, threads: int) -> None:
        self.positions = most_positions(refuse_other_settings(loaded.config))
        self._translator = ctranslate2().Translator(
            str(folder), device="cpu", inter_threads=workers, intra_threads=threads
        )
        self._source, self._target = pieces(loaded.tokenizers.source), pieces(loaded.tokenizers.target)
        self._numbers = {piece: number for number, piece in enumerate(self._target)}
        self._eos_id = loaded.tokenizers.target.eos_id

    def decode(
        self, sources: Sequence[list[int]], search: EngineSearch, *, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, whose token log-probabilities are not computed."""
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for longest, places in self._by_longest(sources, search).items():
            outputs = translations(
                self._translator,
                [[self._source[number] for number in sources[place]] for place in places],
                size=search.size,
                longest=longest,
                alpha=search.alpha,
                n_best=search.n_best,
                never=[self._target[number] for number in search.never],
                batch=batch_tokens,
            )
            for place, each in zip(places, outputs, strict=True):
                found[place] = [self._hypothesis(output, search) for output in each]
        return found

    def _by_longest(self, sources: Sequence[list[int]], search: EngineSearch) -> dict[int, list[int]]:
        """The places of the sources whose outputs have the same greatest length."""
        groups: dict[int, list[int]] = defaultdict(list)
        for place, source in enumerate(sources):
            if source:
                longest = search.limits.longest(len(source))
                groups[longest if self.positions is None else min(longest, self.positions - 1)].append(place)
        return groups

    def _hypothesis(self, output: Output, search: EngineSearch) -> Hypothesis:
        ids = [self._numbers[token] for token in output.tokens]
        length = max(1, len(ids))
        log_prob = output.score * length**search.alpha
        return Hypothesis(
            ids=ids[:-1] if ids[-1:] == [self._eos_id] else ids,
            log_prob=log_prob,
            score=log_prob / search.length_penalty(length),
            token_log_probs=[],
        )


def _digest(loaded: LoadedModel) -> str:
    """The hash of a model's settings, weights and tokenisers, and of the versions that write it."""
    digest = hashlib.sha256(f"{version('regard')} {ctranslate2().__version__}".encode())
    digest.update(json_bytes({"kind": loaded.config.kind, "settings": loaded.config.to_dict()}))
    digest.update(loaded.tokenizers.digest().encode())
    tensors: dict[str, Any] = dict(loaded.model.state_dict())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
