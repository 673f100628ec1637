"""Decoding sources by regard's own search: few in one process, many in a pool of workers."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.decoding.base_search import Search
from regard.decoding.batches import Decoder, Job, decode_all, max_positions
from regard.decoding.hypothesis import Constraint, Hypothesis
from regard.decoding.pool import DecodingPool, one_thread
from regard.decoding.running_batch import RunningTranslations
from regard.fast.decoding_step import Fingerprint, fast_step, fingerprint
from regard.fast.unchanged import changed_part, sampled_weights
from regard.models.build import count_parameters
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import SummaryOptions

FEW = 32  # lines for each worker; fewer are decoded in one process
# A step of a smaller model is so short that a second thread costs more than it computes: the included model
# takes 1.5 s of CPU for a sentence with one thread, 2.4 to 3.7 s with two (AMD EPYC, Zen 5, a busy machine).
MANY_PARAMETERS = 30_000_000


class PooledDecoder:
    """Decodes sources with one model; many of them by `workers` processes."""

    def __init__(
        self,
        strategy: Search,
        model: SequenceToSequence,
        target: Tokenizer,
        workers: int,
        options: SummaryOptions,
        runtime: DecodingRuntime,
    ) -> None:
        self._strategy, self._model, self._workers = strategy, model, workers
        self._pad_id, self._eos_id, self._batch_tokens = target.pad_id, target.eos_id, options.batch_tokens
        self._threads_are_chosen = runtime.threads is not None or options.workers is not None
        self._started: tuple[tuple[Fingerprint, int], DecodingPool[Job, list[list[Hypothesis]]]] | None = None
        self._starting = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Without workers and their lock: a copy starts its own."""
        return {**self.__dict__, "_started": None, "_starting": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._starting = threading.Lock()

    @property
    def positions(self) -> int:
        """How many tokens of a source can be read, its end included."""
        return max_positions([self._model])

    def decode(
        self,
        sources: Sequence[list[int]],
        *,
        required: Sequence[tuple[Constraint, ...]] | None = None,
        first_index: int = 0,
        decoded: Callable[[Sequence[int]], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; the parameters are those of `decode_all`."""
        pool = self._pool(len(sources))
        with one_thread() if pool is None and self._is_faster_with_one_thread else nullcontext():
            return decode_all(
                self._strategy,
                self._model,
                sources,
                required=required,
                batch_tokens=self._batch_tokens,
                pad_id=self._pad_id,
                eos_id=self._eos_id,
                first_index=first_index,
                pool=pool,
                decoded=decoded,
            )

    def running(self, *, alternatives: int = 0) -> RunningTranslations:
        """A new running batch; `alternatives`: see `RunningBatch`."""
        return RunningTranslations(
            self._strategy,
            self._model,
            pad_id=self._pad_id,
            eos_id=self._eos_id,
            alternatives=alternatives,
        )

    def _pool(self, lines: int) -> DecodingPool[Job, list[list[Hypothesis]]] | None:
        """The workers, started when there are enough lines for them, and again when the model has changed.

        None for a model with a hook: workers are copies, and what it observes or keeps would stay in them.
        """
        if self._workers == 1 or lines < FEW * self._workers or changed_part(self._model) is not None:
            return None
        with self._starting:
            current = fingerprint(self._model), sampled_weights(self._model)
            if (
                self._started is None or self._started[0] != current
            ):  # another thread may still use the old one
                fast_step(self._model)  # built before the fork, so that the workers share it
                decoder = Decoder(self._strategy, [self._model])
                self._started = current, DecodingPool(decoder, self._workers, warn=console.warn)
            return self._started[1]

    @cached_property
    def _is_faster_with_one_thread(self) -> bool:
        """True if the user has set neither threads nor workers, and the model is small."""
        if self._threads_are_chosen or self._model.device.type != "cpu":
            return False
        return count_parameters(self._model) < MANY_PARAMETERS
