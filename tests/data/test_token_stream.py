"""A token stream has all tokens of every document, however documents are split for tokenisation."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch

from regard.data import token_stream as stream_file
from regard.data.documents import Documents, DocumentSettings
from regard.data.token_stream import TextBatch, TokenStream, encoded, limit_characters, parts, write_stream
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import DataError, RunError

VERSE = "But, soft! what light\n  through yonder window breaks?\n\nIt is the East, and Juliet is the sun.\n"
TEXTS = [VERSE, "\nbegins with an empty line", "é\nÄrger, naïve 東京\n", VERSE * 3, "x"]
KINDS = ["characters", "bytes", "bpe", "bytebpe", "unigram", "wordpiece", "words"]


def tokenizer_of(kind: str, texts: list[str] = TEXTS) -> Tokenizer:
    return train_tokenizer(texts * 3, kind, TokenizerSettings(kind=kind, vocab_size=340))


@pytest.fixture
def documents(tmp_path) -> Documents:
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    return Documents(DocumentSettings(file="texts.jsonl", document="record"), tmp_path)


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe", "bytebpe", "unigram"])
def test_a_tokeniser_of_text_with_line_feeds_loses_nothing(kind):
    tokenizer = tokenizer_of(kind)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_is_cut_has_the_tokens_that_it_has_whole(kind, monkeypatch):
    tokenizer = tokenizer_of(kind)
    whole = tokenizer.encode_batch(TEXTS)
    for part in (1, 7, 40):
        monkeypatch.setattr(stream_file, "PART_CHARACTERS", part)
        found = [(text, list(itertools.chain.from_iterable(ids))) for text, ids in encoded(TEXTS, tokenizer)]
        assert found == list(zip(TEXTS, whole, strict=True))


def test_parts_are_cut_before_line_feeds(monkeypatch):
    monkeypatch.setattr(stream_file, "PART_CHARACTERS", 3)
    assert list(parts("abcdef\ng\n\nhijklm")) == ["abcdef", "\ng\n", "\nhijklm"]
    assert "".join(parts(VERSE)) == VERSE


def test_a_limit_of_the_system_is_named_with_the_folder(tmp_path, documents, small_files):
    with pytest.raises(RunError, match=r"cannot write .*stream: File too large") as raised, small_files():
        write_stream(documents, tokenizer_of("bytes"), tmp_path / "stream", special_tokens=True)
    assert "ulimit -f" in raised.value.hint


@pytest.mark.parametrize("with_special", [True, False])
def test_what_is_read_is_what_was_tokenised(tmp_path, documents, with_special):
    tokenizer = tokenizer_of("bpe")
    stream = write_stream(documents, tokenizer, tmp_path / "stream", special_tokens=with_special)
    end = [tokenizer.eos_id] if with_special else []
    expected = [[*ids, *end] for ids in tokenizer.encode_batch(TEXTS)]
    found = [stream.ids[first:last].tolist() for first, last in itertools.pairwise(stream.starts.tolist())]
    assert found == expected
    assert dataclasses.asdict(stream.report) == {
        "documents": len(TEXTS),
        "tokens": sum(map(len, expected)),
        "characters": sum(map(len, TEXTS)),
        "bytes": sum(len(text.encode()) for text in TEXTS),
        "unknown": 0,
    }
    assert stream.num_targets == len(stream.ids) - (0 if with_special else 1)


def test_bos_is_read_before_each_document(tmp_path, documents):
    tokenizer = tokenizer_of("bpe")
    stream = write_stream(documents, tokenizer, tmp_path / "stream", special_tokens=True)
    labels, before = stream.read(np.arange(len(stream.ids)))
    expected = [[tokenizer.bos_id, *ids] for ids in tokenizer.encode_batch(TEXTS)]
    assert before.tolist() == list(itertools.chain.from_iterable(expected))
    assert labels.tolist() == stream.ids.tolist()


def test_without_special_tokens_the_previous_token_is_read(tmp_path, documents):
    stream = write_stream(documents, tokenizer_of("bpe"), tmp_path / "stream", special_tokens=False)
    labels, before = stream.read(np.arange(1, len(stream.ids)))
    assert before.tolist() == stream.ids[:-1].tolist()
    assert labels.tolist() == stream.ids[1:].tolist()


def test_unknown_characters_are_counted(tmp_path, documents):
    tokenizer = tokenizer_of("characters", ["But it is"])
    report = write_stream(documents, tokenizer, tmp_path / "stream", special_tokens=True).report
    known = set("But it is")
    assert report.unknown == sum(symbol not in known for text in TEXTS for symbol in text)


def test_a_stream_is_made_once(tmp_path, documents, monkeypatch):
    tokenizer, folder = tokenizer_of("bpe"), tmp_path / "stream"
    write_stream(documents, tokenizer, folder, special_tokens=True)
    with monkeypatch.context() as patched:
        patched.setattr(stream_file, "encoded", None)
        assert len(write_stream(documents, tokenizer, folder, special_tokens=True).ids)
    assert not write_stream(documents, tokenizer, folder, special_tokens=False).special_tokens  # made again
    (folder / "ids").write_bytes(b"short")
    with pytest.raises(DataError, match="incomplete or damaged token stream"):
        TokenStream(folder)
    assert len(write_stream(documents, tokenizer, folder, special_tokens=False).ids)


@pytest.mark.parametrize("damaged", ["ids", "starts"])
def test_a_stream_of_the_right_size_and_other_numbers_is_reported_and_made_again(
    tmp_path, documents, damaged
):
    tokenizer, folder, messages = tokenizer_of("bpe"), tmp_path / "stream", []
    write_stream(documents, tokenizer, folder, special_tokens=True)
    before = (folder / damaged).read_bytes()
    (folder / damaged).write_bytes(bytes(len(before)))
    write_stream(documents, tokenizer, folder, special_tokens=True, say=messages.append)
    assert (folder / damaged).read_bytes() == before
    assert f"{damaged} was changed after it was written" in messages[0]


def test_a_trial_reads_so_many_characters(tmp_path, documents):
    assert list(limit_characters(["abc", "def", "gh"], 5)) == ["abc", "de"]
    assert list(limit_characters(["abc", "def"], 3)) == ["abc"]
    assert list(limit_characters(["abc", "def"], None)) == ["abc", "def"]
    stream = write_stream(
        documents, tokenizer_of("bpe"), tmp_path / "stream", special_tokens=True, max_characters=100
    )
    assert stream.report.characters == 100


def test_no_text_is_no_stream(tmp_path):
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(DataError, match="the selected text is empty") as messages:
        write_stream(
            Documents(DocumentSettings(file="empty.txt"), tmp_path),
            tokenizer_of("bpe"),
            tmp_path,
            special_tokens=True,
        )
    assert messages.value.hint


def test_a_batch_counts_what_is_predicted_and_moves_whole():
    batch = TextBatch(
        ids=torch.tensor([[2, 5, 6], [2, 7, 0]]),
        labels=torch.tensor([[5, 6, -100], [7, -100, -100]]),
        documents=torch.tensor([[0, 0, 0], [0, 0, 1]]),
        lines=torch.tensor([1, 2]),
        targets=torch.tensor([0, 1, 3]),
    )
    assert batch.num_targets == 3
    assert len(batch) == 2
    assert batch.inputs[1] is batch.documents
    moved = batch.to("meta")
    assert all(getattr(moved, field.name).is_meta for field in dataclasses.fields(moved))
    assert dataclasses.replace(batch, documents=None).to("cpu").documents is None
