"""Windows for training, and for scoring each token once."""

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import IGNORED
from regard.data.loader import Loader, LoaderSettings
from regard.data.token_stream import TokenStream, TokenStreamReport
from regard.data.windows import PackedExamples, WindowExamples, pack, scoring_batches
from regard.errors import DataError

BOS = 2


@pytest.fixture(scope="module")
def stream_of(tmp_path_factory):
    """A stream of documents of these lengths; its tokens are 10, 11, 12, ... and identify their positions."""
    made = itertools.count()

    def stream(*lengths: int, special_tokens: bool = True) -> TokenStream:
        folder = tmp_path_factory.mktemp("streams") / str(next(made))
        folder.mkdir()
        tokens = sum(lengths)
        report = TokenStreamReport(
            documents=len(lengths), tokens=tokens, characters=tokens, bytes=tokens, unknown=0
        )
        facts = {"made_from": {}, "report": asdict(report), "marks": special_tokens, "bos_id": BOS}
        (folder / "stream.json").write_text(json.dumps(facts))
        (folder / "starts").write_bytes(np.cumsum([0, *lengths]).astype(np.int64).tobytes())
        (folder / "ids").write_bytes((np.arange(tokens) + 10).astype(np.uint32).tobytes())
        return TokenStream(folder)

    return stream


def test_windows_lie_end_to_end_and_begin_elsewhere_in_each_epoch(stream_of):
    examples = WindowExamples(stream_of(103), 8, seed=1)
    assert len(examples) == 12
    every = np.arange(len(examples))
    offsets = set()
    for epoch in range(60):
        batch, offset = examples.batch(every, epoch), examples.offset(epoch)
        offsets.add(offset)
        assert batch.labels.flatten().tolist() == list(range(10 + offset, 10 + offset + 96))
        before = [BOS] if offset == 0 else [9 + offset]
        assert batch.ids.flatten().tolist() == [*before, *range(10 + offset, 9 + offset + 96)]
        assert batch.documents is None
        assert batch.num_targets == 96
    assert offsets == set(range(8))
    assert torch.equal(examples.batch(every[3:5], 7).ids, examples.batch(every, 7).ids[3:5])
    assert [WindowExamples(stream_of(103), 8, seed=2).offset(epoch) for epoch in range(9)] != [
        examples.offset(epoch) for epoch in range(9)
    ]


@pytest.mark.parametrize("special_tokens", [True, False])
@pytest.mark.parametrize("tokens", [8, 9, 15, 16, 17, 24])
def test_a_short_text_has_windows_too(stream_of, tokens, special_tokens):
    if tokens == 8 and not special_tokens:
        pytest.skip("7 predictions are not a block")
    examples = WindowExamples(stream_of(tokens, special_tokens=special_tokens), 8, seed=1)
    for epoch in range(20):
        labels = examples.batch(np.arange(len(examples)), epoch).labels
        assert labels.min() >= (10 if special_tokens else 11)
        assert labels.max() < 10 + tokens


def test_a_text_of_less_than_a_block_is_refused(stream_of):
    with pytest.raises(DataError, match="has 7 tokens, less than a block of 8") as caught:
        WindowExamples(stream_of(7), 8, seed=1)
    assert "task.block" in caught.value.hint


def test_a_loader_gives_each_window_once_an_epoch(stream_of):
    settings = LoaderSettings(batch_tokens=24, window=64)
    loader = Loader(WindowExamples(stream_of(163), 8, seed=1), settings, seed=1)
    batches = list(loader.epoch(3))
    assert sorted(line for batch in batches for line in batch.lines.tolist()) == list(range(1, 20))
    assert {len(batch) for batch in batches} == {3, 1}
    assert {batch.ids.size(1) for batch in batches} == {8}


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_packing_keeps_every_piece_and_overfills_no_row(lengths):
    ends = list(itertools.accumulate(length % 12 + 1 for length in lengths))
    pieces = list(zip([0, *ends[:-1]], ends, strict=True))
    rows = pack(pieces, 12)
    assert sorted(piece for row in rows for piece in row) == pieces
    assert all(sum(last - first for first, last in row) <= 12 for row in rows)
    assert all(row == sorted(row) for row in rows)
    half_empty = sum(sum(last - first for first, last in row) <= 6 for row in rows)
    assert half_empty <= 1, "two of these would have been one"


def test_packed_documents_are_whole_and_numbered(stream_of):
    examples = PackedExamples(stream_of(3, 5, 8, 2, 19, 1), 8)
    batch = examples.batch(np.arange(len(examples)), 0)
    assert batch.documents is not None
    real = batch.labels != IGNORED
    assert sorted(batch.labels[real].tolist()) == list(range(10, 48))
    begins = {0, 3, 8, 16, 18, 37}  # where documents begin
    for ids, labels, documents in zip(batch.ids, batch.labels, batch.documents, strict=True):
        for number in documents.unique():
            here = documents == number
            if (labels[here] == IGNORED).all():
                assert (ids[here] == 0).all(), "padding is a document of its own"
                continue
            places = labels[here] - 10
            assert places.diff().eq(1).all()
            first = BOS if int(places[0]) in begins else int(places[0]) + 9
            assert ids[here].tolist() == [first, *(places[:-1] + 10).tolist()]
    pieces = sorted(last - first for row in examples.rows for first, last in row)
    assert pieces == [1, 2, 3, 3, 5, 8, 8, 8]  # 19 is 8, 8 and 3
    assert examples.lengths(np.arange(2), 0)[0].tolist() == [8, 8]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    block=st.integers(2, 12),
    context=st.integers(0, 11),
    separate_documents=st.booleans(),
    special_tokens=st.booleans(),
    batch_tokens=st.integers(1, 60),
)
def test_every_token_is_scored_once_and_with_context(
    stream_of, lengths, block, context, separate_documents, special_tokens, batch_tokens
):
    stream, context = stream_of(*lengths, special_tokens=special_tokens), min(context, block - 1)
    begins = {0, *itertools.accumulate(lengths)} if separate_documents else {0}
    found = []
    for batch in scoring_batches(
        stream, block, context=context, separate_documents=separate_documents, batch_tokens=batch_tokens
    ):
        assert batch.documents is None
        assert batch.ids.size(1) <= block
        assert batch.ids.numel() <= max(batch_tokens, batch.ids.size(1))
        for ids, labels in zip(batch.ids.tolist(), batch.labels.tolist(), strict=True):
            predicted = [place for place, label in enumerate(labels) if label != IGNORED]
            assert predicted == list(range(predicted[0], predicted[-1] + 1))
            found += [labels[place] for place in predicted]
            for place in predicted:
                token = labels[place]
                assert ids[place] == (
                    BOS if special_tokens and token - 10 in {0, *itertools.accumulate(lengths)} else token - 1
                )
            start = labels[predicted[0]] - 10 - predicted[0]  # of the window, in the stream
            assert predicted[0] >= context or start in begins or (start == 1 and not special_tokens)
    assert sorted(found) == list(range(10 if special_tokens else 11, 10 + sum(lengths)))
