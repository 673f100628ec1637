"""The shares of all processes together are the batch; an empty share counts no target."""

import numpy as np
import pytest

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.process_share import EmptyShare, ProcessShare
from regard.data.shards import write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    corpus = open_corpus(CorpusSettings(synthetic="numbers", size=90), LinePolicy(), folder)
    write_shards(
        corpus, train_tokenizers(corpus, TokenizerSettings(kind="characters")), folder / "s", max_tokens=99
    )
    return PairExamples(folder / "s", 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_together_are_the_batches_of_one_process(examples, size):
    settings = LoaderSettings(batch_tokens=300)
    whole = [sorted(batch.lines.tolist()) for batch in Loader(examples, settings, seed=1).epoch()]
    shares = [Loader(ProcessShare(examples, rank, size), settings, seed=1).epoch() for rank in range(size)]
    for lines, batches in zip(whole, zip(*shares, strict=True), strict=True):
        assert sorted(line for batch in batches for line in batch.lines.tolist()) == lines
        rows = [len(batch.lines) for batch in batches]
        assert max(rows) - min(rows) <= 1


def test_an_empty_share_is_another_s_that_counts_nothing(examples):
    batch = ProcessShare(examples, 1, 2).batch(np.array([4]), 0)
    assert isinstance(batch, EmptyShare)
    assert batch.num_targets == 0
    assert batch.lines.tolist() == []
    assert batch.halves() is None
    assert batch.to("cpu").other.num_targets > 0
