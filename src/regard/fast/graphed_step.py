"""The fast decoding step on a GPU: one new token for each row by the replay of a CUDA graph.

A step of a small model is some hundred short kernels, which take longer to launch from Python than to run.
Here they are recorded once for each shape and replayed as one. They are those of `StaticDecoder` on a
`StaticCache`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.fast.largest import CandidateTensors, largest
from regard.fast.static_cache import Heads, Size, StaticCache, StaticMemories, StaticMemory, places_of_a_step
from regard.fast.static_decoder import StaticDecoder
from regard.layers.attention import SelfAttention
from regard.layers.cache import DecoderCache, StackCache
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

MOST_GRAPHS = 64  # of a memory: the one that was used longest ago is dropped
USES_BEFORE_A_GRAPH = 2  # steps of a shape that run without a graph: recording costs as much as two
# Kernels that take a mask, in this order. cuDNN's make a plan for each shape, which takes longer than a step.
KERNELS = (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)


class Shape(NamedTuple):
    """What a graph is recorded for; `size`: how many candidates it finds, 0 for the logits alone."""

    read: Size
    size: int


class Recorded:
    """A step of one shape: run as it is at first, then recorded and replayed."""

    def __init__(self, device: torch.device, pool: Any) -> None:
        """`pool`: memory for what is computed on the way, shared by steps that never run at the same time."""
        self._device, self._pool, self._uses = device, pool, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result = torch.empty(0)

    def __call__(self, run: Callable[[], Tensor]) -> Tensor:
        """What `run`, always the same, returns. The next call overwrites it."""
        if self._device.type != "cuda":
            return run()
        with torch.cuda.device(self._device):
            if self._graph is None and self._uses < USES_BEFORE_A_GRAPH:
                self._uses += 1
                with _kernels():
                    return run()
            if self._graph is None:
                self._graph = self._recorded(run)
            self._graph.replay()
            return self._result

    def _recorded(self, run: Callable[[], Tensor]) -> torch.cuda.CUDAGraph:
        # not `torch.cuda.graph`, which gives all free memory back to the driver at each recording
        graph, here, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), _stream(self._device)
        stream.wait_stream(here)
        with _recording, torch.cuda.stream(stream), _kernels():
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                self._result = run()
            finally:
                graph.capture_end()
        here.wait_stream(stream)
        return graph


class GraphedStep:
    """Last ids of the rows, and a cache -> logits of the next ids; each row of the cache grows by one.

    It does not refer to the model, which would then never be freed, but to its parts.
    """

    start = None  # sources are read by the model itself
    has_top_candidates = True
    pads = True  # memory is taken for each row as for the longest

    def __init__(self, model: EncoderDecoder | DecoderOnly) -> None:
        stack = model.decoder if isinstance(model, EncoderDecoder) else model
        first = stack.blocks[0].self_attention
        assert isinstance(first, SelfAttention)
        weight = first.output.weight
        heads = Heads(len(stack.blocks), first.num_kv_heads, first.d_head, weight.dtype, weight.device)
        self._memories = StaticMemories(heads, model.max_length)
        self._decoder = StaticDecoder(stack, model.output)

    def slots(self, cache: StackCache | DecoderCache | StaticCache, rows: int) -> StaticCache:
        """`cache`, of `rows` rows, converted to this step's kind; the argument must not be used any more."""
        return cache if isinstance(cache, StaticCache) else StaticCache.of(cache, self._memories, rows)

    def __call__(self, ids: Int64[Tensor, " rows"], cache: StaticCache) -> Float[Tensor, "rows vocab"]:
        """The logits of the next ids."""
        found = self._step(ids, None, cache, 0)
        return found.index_select(0, torch.from_numpy(cache.places).to(found.device))

    def top_candidates(
        self, ids: Int64[Tensor, " rows"], cache: StaticCache, size: int, asked: Int64[Tensor, " rows"]
    ) -> CandidateTensors:
        """The `size` most likely next ids of each row, and the log-probability of its id in `asked`.

        Log-probabilities and ids are in descending order; of equal ones the lower id comes first. They are on
        the host.
        """
        many = 1 << (size - 1).bit_length()  # so that there are few graphs
        found = self._step(ids, asked, cache, many).cpu()[torch.from_numpy(cache.places)]
        count = (found.size(1) - 1) // 2
        values, chosen, own = found[:, :count].float(), found[:, count:-1].long(), found[:, -1].float()
        return values[:, :size], chosen[:, :size], own

    def _step(
        self, ids: Int64[Tensor, " rows"], asked: Int64[Tensor, " rows"] | None, cache: StaticCache, size: int
    ) -> Tensor:
        """The result of all places."""
        cache.make_room()
        memory, read = cache.memory, self._read(cache)
        numbers = torch.zeros(2, read.places, dtype=torch.int64)
        places = torch.from_numpy(cache.places)
        numbers[0, places] = ids.cpu()
        if asked is not None:
            numbers[1, places] = asked.cpu()
        memory.asked[:, : read.places].copy_(numbers, non_blocking=True)
        shape = Shape(read, size)
        recorded = memory.graphs.pop(shape, None) or Recorded(memory.lengths.device, memory.pool)
        memory.graphs[shape] = recorded  # the last one used is the last
        if len(memory.graphs) > MOST_GRAPHS:
            del memory.graphs[next(iter(memory.graphs))]
        with torch.autocast(memory.lengths.device.type, enabled=False):
            found = recorded(partial(self._run, memory, shape))
        cache.advance()
        return found

    def _read(self, cache: StaticCache) -> Size:
        """The part of the memory that a step reads: a few sizes, so that there are few graphs."""
        used, held = cache.used, cache.memory.size
        rounded = used.rounded(None)
        return Size(
            min(places_of_a_step(used.places), held.places),
            min(rounded.positions, held.positions),
            min(rounded.source, held.source),
        )

    def _run(self, memory: StaticMemory, shape: Shape) -> Tensor:
        """Logits; or for each place the candidates, their ids, and the one that was asked for."""
        logits = self._decoder(memory, shape.read)
        if not shape.size:
            return logits
        log_probs = logits.log_softmax(dim=-1)
        own = log_probs.gather(1, memory.asked[1, : shape.read.places, None])
        values, ids = largest(log_probs, min(shape.size, log_probs.size(1)))
        return torch.cat((values.double(), ids.double(), own.double()), dim=1)


_recording = threading.Lock()  # the stream is one for all threads


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which graphs are recorded: one, because each has a workspace for matrix products."""
    return torch.cuda.Stream(device)


@contextmanager
def _kernels() -> Iterator[None]:
    with sdpa_kernel(list(KERNELS), set_priority=True):
        yield
