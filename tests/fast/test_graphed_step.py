"""The step of a GPU gives what the whole model gives, whatever its cache went through; here also on a CPU."""

import copy
import gc
import random
import weakref

import pytest
import torch

from regard.decoding import step as decoding_step
from regard.decoding.batches import decode_all
from regard.decoding.continuation import ContinuationSettings, _batches, continue_all, prompts_of
from regard.decoding.settings import GenerationSettings
from regard.fast import graphed_step, static_cache
from regard.fast.decoding_step import DecodingStep, fast_step
from regard.fast.graphed_step import GraphedStep
from tests.fast.test_decoding_step import SHAPES, VOCAB, WINDOWS, translator, writer
from tests.nightly import each_once, name_of

WIDE = [  # heads of 16, for which a GPU has a kernel
    {"d_model": 64},
    {"d_model": 64, "num_kv_heads": 2, "positions": "rotary", "attention_scale": 0.4},
]
OF_A_GPU_ALONE = [
    {"d_model": 64, "window": 3, "positions": "rotary"},
    {"positions": "rotary", "rotary_dim": 4},
    {"parallel_residual": "one_norm", "positions": "rotary", "rotary_dim": 4},
    {"parallel_residual": "two_norms"},
    {"norm_position": "reordered", "norm": "rms"},
    {
        "logit_softcap": 3.0,
        "positions": "rotary",
        "window": 3,
        "layer_types": ("full_attention", "sliding_attention"),
    },
]


@pytest.fixture
def small(monkeypatch):
    """Memories that soon have to grow."""
    monkeypatch.setattr(static_cache, "LEAST_PLACES", 2)
    monkeypatch.setattr(static_cache, "LEAST_POSITIONS", 2)
    monkeypatch.setattr(static_cache, "LEAST_SOURCE", 2)


class Rows:
    """What each row has read, and the logits that the whole model gives for it."""

    def __init__(self, model, sources):
        self.model, self.rows = model, [(source, []) for source in sources]

    def read(self, ids):
        self.rows = [(source, [*read, each]) for (source, read), each in zip(self.rows, ids, strict=True)]

    def select(self, rows):
        self.rows = [self.rows[row] for row in rows]

    def logits(self):
        found = []
        for source, read in self.rows:
            ids = torch.tensor([read], device=self.model.device)
            if source is None:
                found.append(self.model(ids)[0, -1])
            else:
                memory = self.model.encode(
                    torch.tensor([source], device=self.model.device),
                    torch.tensor([len(source)], device=self.model.device),
                )
                found.append(self.model.decode(ids, memory)[0, -1])
        return torch.stack(found)


def sources(count, rng):
    return [[rng.randrange(4, VOCAB) for _ in range(rng.randrange(1, 9))] for _ in range(count)]


def begun(step, model, texts):
    """A cache of rows that have read these sources, or nothing."""
    if texts[0] is None:
        return step.slots(model.start(), len(texts))
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    lengths = torch.tensor([len(text) for text in texts])
    memory = model.encode(ids.to(model.device), lengths.to(model.device))
    return step.slots(model.start(memory), len(texts))


def walked(model, seed, steps=14):
    """Steps, selections and rows that join, in any order; the logits of each step, and those of the model."""
    rng, step = random.Random(seed), GraphedStep(model)
    made = (lambda count: sources(count, rng)) if hasattr(model, "encode") else (lambda count: [None] * count)
    texts = made(3)
    cache, rows = begun(step, model, texts), Rows(model, texts)
    found = []
    for _ in range(steps):
        ids = [rng.randrange(4, VOCAB) for _ in rows.rows]
        logits = step(torch.tensor(ids), cache)
        rows.read(ids)
        found.append((logits, rows.logits()))
        chosen = [rng.randrange(len(rows.rows)) for _ in range(rng.randrange(1, 7))]
        if rng.random() < 0.7:
            cache, _ = cache.select(torch.tensor(chosen)), rows.select(chosen)
        if rng.random() < 0.3:
            texts = made(rng.randrange(1, 4))
            cache = cache.join(begun(step, model, texts))
            rows.rows += [(text, []) for text in texts]
    return found


@torch.no_grad()
@pytest.mark.parametrize(("shape", "make"), each_once([*SHAPES, *WIDE], [translator, writer]), ids=name_of)
def test_each_row_has_the_logits_of_the_whole_model(device, small, make, shape):
    for found, expected in walked(make(**shape).to(device), seed=str(shape)):
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("shape", [*WINDOWS, *OF_A_GPU_ALONE], ids=str)
def test_windows_and_parts_that_only_this_step_knows(device, small, shape):
    for found, expected in walked(writer(**shape).to(device), seed=str(shape)):
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)


@torch.no_grad()
def test_positions_end_where_they_are_learned(device, small):
    model = writer(max_positions=5).to(device)
    step = GraphedStep(model)
    cache, rows = begun(step, model, [None, None]), Rows(model, [None, None])
    for _ in range(5):
        rows.read([5, 6])
        torch.testing.assert_close(step(torch.tensor([5, 6]), cache), rows.logits(), atol=2e-4, rtol=1e-4)


@torch.no_grad()
def test_it_continues_what_the_model_has_read_and_what_was_cut(device, small):
    model = writer(window=4, positions="rotary").to(device)
    ids = torch.randint(4, VOCAB, (2, 9), generator=torch.Generator().manual_seed(0))
    step, plain = GraphedStep(model), model.start()
    model.states(ids[:, :6].to(device), cache=plain)
    cache = step.slots(plain, 2)
    expected = model(ids.to(device))
    for place in (6, 7, 8):
        found = step(ids[:, place], cache)
        torch.testing.assert_close(found, expected[:, place], atol=2e-4, rtol=1e-4)
    cache.cut(7)
    torch.testing.assert_close(step(ids[:, 7], cache), expected[:, 7], atol=2e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="8 positions cannot be cut to 9"):
        cache.cut(9)


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 2, VOCAB - 1, VOCAB])
def test_candidates_are_the_best_logits(device, size):
    model = translator().to(device)
    step, rng = GraphedStep(model), random.Random(0)
    texts = sources(5, rng)
    one, other = begun(step, model, texts), begun(step, model, texts)
    ids, asked = torch.tensor([4, 5, 6, 7, 8]), torch.tensor([3, 4, 5, 6, 7])
    for _ in range(4):
        log_probs = step(ids, one).log_softmax(dim=-1).cpu()
        values, found, own = step.top_candidates(ids, other, size, asked)
        order = log_probs.sort(dim=1, descending=True, stable=True)
        torch.testing.assert_close(values, order.values[:, :size])
        assert torch.equal(found, order.indices[:, :size])
        torch.testing.assert_close(own, log_probs.gather(1, asked[:, None])[:, 0])


def found_by(model, settings, monkeypatch, step):
    """The translations of some sources by the step that this function gives; its steps are counted."""
    monkeypatch.setattr(decoding_step, "fast_step", step)
    texts = sources(9, random.Random(4))
    strategy = settings.strategy(pad_id=0, bos_id=2, eos_id=3)
    return decode_all(strategy, model, texts, pad_id=0, eos_id=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_size": 1},
        {"beam_size": 4, "n_best": 2},
        {"beam_size": 3, "no_repeat_ngram_size": 2},
        {"beam_size": 1, "min_length": 9},
    ],
    ids=str,
)
def test_searches_find_the_same_as_without_it(device, small, monkeypatch, settings):
    model = translator().to(device)
    step, settings = GraphedStep(model), GenerationSettings(max_length=12, **settings)
    plain = found_by(model, settings, monkeypatch, lambda _: None)
    found = found_by(model, settings, monkeypatch, lambda _: step)
    assert [[each.ids for each in one] for one in found] == [[each.ids for each in one] for one in plain]
    for ones, others in zip(found, plain, strict=True):
        assert [each.score for each in ones] == pytest.approx([each.score for each in others], abs=1e-4)


@pytest.mark.parametrize("settings", [{"beam_size": 3}, {"seed": 3, "top_k": 5}], ids=str)
@pytest.mark.parametrize("max_context", [0, 7])
def test_continuations_are_the_same_as_without_it(device, small, monkeypatch, settings, max_context):
    from regard.decoding import continuation

    model = writer(positions="rotary").to(device)
    prompts = prompts_of([*sources(6, random.Random(5)), [5] * 20], begin_id=2)
    found = {}
    for name, step in (("plain", None), ("graphs", GraphedStep(model))):
        for module in (decoding_step, continuation):
            monkeypatch.setattr(module, "fast_step", lambda _, step=step: step)
        strategy = ContinuationSettings(**settings).strategy(num=2)
        found[name] = continue_all(strategy, model, prompts, max_new_tokens=9, max_context=max_context)
    assert [[each.ids for each in one] for one in found["graphs"]] == [
        [each.ids for each in one] for one in found["plain"]
    ]


@torch.no_grad()
def test_a_memory_is_used_again_and_cleared(device):
    model = translator().to(device)
    step, texts = GraphedStep(model), sources(3, random.Random(1))
    cache = begun(step, model, texts)
    first, memory = step(torch.tensor([4, 5, 6]), cache), cache.memory
    memory.targets.fill_(torch.nan)
    memory.sources.fill_(torch.nan)
    del cache
    cache = begun(step, model, texts)
    assert cache.memory is memory
    assert torch.equal(step(torch.tensor([4, 5, 6]), cache), first)
    other = begun(step, model, texts)
    assert other.memory is not memory


@torch.no_grad()
def test_rows_that_leave_make_the_step_smaller(device):
    model = writer().to(device)
    step = GraphedStep(model)
    cache, rows = begun(step, model, [None] * 40), Rows(model, [None] * 40)
    for kept in (range(40), range(30, 40), [9, 3]):
        cache, _ = cache.select(torch.tensor(list(kept))), rows.select(kept)
        ids = [4 + row for row in range(len(rows.rows))] if len(rows.rows) < 15 else [5] * len(rows.rows)
        rows.read(ids)
        torch.testing.assert_close(step(torch.tensor(ids), cache), rows.logits(), atol=2e-4, rtol=1e-4)
    assert int(cache.places.max()) < static_cache.LEAST_PLACES


@torch.no_grad()
def test_a_source_of_which_nothing_is_attended_to_gives_what_the_model_gives(device):
    model = translator(d_model=64).to(device)
    memory = model.encode(torch.tensor([[5, 6], [7, 8]], device=device), torch.tensor([2, 0], device=device))
    ids, step = torch.tensor([4, 4]), GraphedStep(model)
    expected = model.extend(ids[:, None].to(device), model.start(memory))[:, -1]
    torch.testing.assert_close(step(ids, step.slots(model.start(memory), 2)), expected, atol=2e-4, rtol=1e-4)


@torch.no_grad()
def test_a_small_cache_does_not_take_a_large_memory(device):
    model = writer().to(device)
    step = GraphedStep(model)
    large = begun(step, model, [None] * 100)
    memory = large.memory
    del large
    small = begun(step, model, [None])
    assert small.memory is not memory
    assert begun(step, model, [None] * 90).memory is memory


def test_memory_that_is_padded_counts_as_such():
    prompts = prompts_of([[5]] * 5 + [[5] * 60], begin_id=2)
    batches = [
        list(_batches(prompts, 3, 120, join=True, pads=step.pads)) for step in (DecodingStep, GraphedStep)
    ]
    assert [len(each) for each in batches] == [1, 2]


def test_it_does_not_keep_its_model(device):
    model = writer().to(device)
    step = GraphedStep(model)
    with torch.no_grad():
        step(torch.tensor([4]), step.slots(model.start(), 1))
    known = weakref.ref(model)
    del model
    gc.collect()
    assert known() is None
    assert step is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@torch.no_grad()
def test_a_replayed_graph_has_the_bits_of_the_step_that_was_recorded(dtype, monkeypatch):
    model = translator(d_model=64).to("cuda", dtype)
    step = fast_step(model)
    assert isinstance(step, GraphedStep)
    other, texts, rng = GraphedStep(copy.deepcopy(model)), sources(20, random.Random(2)), random.Random(3)
    recorded, as_it_is = begun(step, model, texts), begun(other, model, texts)
    replays = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replays.append(1), replay(graph)))
    for number in range(80):
        ids = torch.tensor([rng.randrange(4, VOCAB) for _ in recorded.places])
        with monkeypatch.context() as patched:
            found = step.top_candidates(ids, recorded, 4, ids)
            patched.setattr(graphed_step, "USES_BEFORE_A_GRAPH", 1000)
            expected = other.top_candidates(ids, as_it_is, 4, ids)
        for one, two in zip(found, expected, strict=True):
            assert torch.equal(one, two)
        if number % 3 == 0:
            chosen = torch.tensor(
                [rng.randrange(len(ids)) for _ in range(max(3, len(ids) - rng.randrange(2)))]
            )
            recorded, as_it_is = recorded.select(chosen), as_it_is.select(chosen)
    assert len(replays) > 40


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_graphs_are_freed_with_their_model():
    def used(count):
        for _ in range(count):
            model = writer(d_model=256, num_heads=4, d_ff=1024).to("cuda").eval()
            strategy = ContinuationSettings(beam_size=1).strategy()
            continue_all(strategy, model, prompts_of([[5, 6]] * 4, begin_id=2), max_new_tokens=30)
        del model
        gc.collect()
        return torch.cuda.memory_allocated()

    assert used(1) == used(4)
