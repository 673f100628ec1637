"""A tokenised corpus: the ids of all its pairs in parts, whoever makes them; training reads it as streams."""

import gzip
import itertools
import json
import secrets
import shutil
import time

import fsspec
import numpy as np
import pytest

import regard
from regard.cli import run
from regard.data import corpus_part, order
from regard.data.documents import Documents, DocumentSettings
from regard.data.loader import Loader, LoaderSettings
from regard.data.pair_part import PairPart
from regard.data.process_share import ProcessShare
from regard.data.token_stream import write_stream
from regard.data.tokenizer import TokenizerPair
from regard.data.windows import WindowExamples
from regard.errors import DataError, FolderError, RecipeError, RunError, UserError
from regard.jobs.storage import Storage
from regard.jobs.token_corpus import PartReader, token_index
from regard.verbs.jobs import jobs_merge, jobs_status, jobs_verify
from regard.verbs.tasks.tokenised_corpus import TokenisedCorpus, read_tokenizers
from regard.verbs.tasks.training_pairs import CorpusPairs
from regard.verbs.tokenize_corpus import tokenize_corpus
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder, checkpoint_digest

FILES, PAIRS = 6, 20  # files, and pairs of each
RECIPE = """
name = "streamed"
[data]
tokens = "{tokens}"
[data.valid]
synthetic = "copy"
split = "valid"
size = 20
length = 5
[tokenizer]
kind = "words"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[batches]
batch_tokens = 64
window = 16
[training]
max_steps = 8
save_every = 4
validate_every = 4
[validation]
metrics = []
"""


def pair(number):
    return f"{number} and {number % 7}", f"{number % 7} {number}"


@pytest.fixture
def corpus(tmp_path):
    """Files of pairs, one of them compressed; their pattern."""
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        lines = ["\t".join(pair(file * PAIRS + line)) + "\n" for line in range(PAIRS)]
        if file == 3:
            (tmp_path / "in" / f"{file}.tsv.gz").write_bytes(gzip.compress("".join(lines).encode()))
        else:
            (tmp_path / "in" / f"{file}.tsv").write_text("".join(lines))
    return f"{tmp_path}/in/*"


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe, with changes of its text."""

    def written(changes=(), tokens="out", name="recipe.toml"):
        text = RECIPE.format(tokens=tokens)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def opened(output, tmp_path):
    storage = Storage(str(output))
    plan, index = token_index(storage, tmp_path / "index.json")
    return storage, index, read_tokenizers(storage, plan.settings)


def parts_of(output):
    return {path.name: path.read_bytes() for path in (output / "parts").glob("*.safetensors")}


def test_the_parts_have_the_ids_of_all_pairs(corpus, recipe, tmp_path):
    report = tokenize_corpus(recipe(), corpus, tmp_path / "out")
    assert (report.parts, report.failed) == (FILES, 0)
    storage, index, tokenizers = opened(tmp_path / "out", tmp_path)
    reader = PartReader(storage, index, PairPart.of)
    for number, size in enumerate(index.numbers("pairs")):
        assert size == PAIRS
        part = reader.part(number)
        assert part.lines.tolist() == list(range(1, PAIRS + 1))
        everyone = np.arange(PAIRS)
        sides = part.copy(0).sources(everyone), part.copy(0).targets(everyone)
        for line, (source, target) in enumerate(zip(*sides, strict=True)):
            texts = pair(number * PAIRS + line)
            assert source.tolist() == [*tokenizers.source.encode(texts[0]), tokenizers.source.eos_id]
            own = tokenizers.target
            assert target.tolist() == [own.bos_id, *own.encode(texts[1]), own.eos_id]
    assert index.totals["pairs"] == FILES * PAIRS
    assert index.totals["longest_source"] == 4
    assert index.totals["source_tokens"] == 4 * FILES * PAIRS


def test_shards_in_any_order_make_what_one_process_makes(corpus, recipe, tmp_path):
    tokenize_corpus(recipe(), corpus, tmp_path / "one")
    for shard in ("3/3", "1/3", "2/3", "2/3"):
        tokenize_corpus(recipe(), corpus, tmp_path / "many", shard=shard)
    assert parts_of(tmp_path / "one") == parts_of(tmp_path / "many")
    files = [tmp_path / name / "tokenizers.json" for name in ("one", "many")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert jobs_verify(str(tmp_path / "many")) == []
    with pytest.raises(DataError, match="are not merged"):
        jobs_merge(str(tmp_path / "many"), to=str(tmp_path / "whole"))


def test_an_engine_makes_the_same(corpus, recipe, tmp_path, engine):
    tokenize_corpus(recipe(), corpus, tmp_path / "one")
    tokenize_corpus(recipe(), corpus, tmp_path / "many", on="ray")
    assert (engine["cpus"], engine["gpu"]) == (1, False)
    assert parts_of(tmp_path / "one") == parts_of(tmp_path / "many")


def test_columns_of_tables_in_a_store(recipe, tmp_path):
    store = f"memory://bucket-{secrets.token_hex(4)}"
    files = fsspec.filesystem("memory")
    lines = [json.dumps({"id": number, "en": pair(number)[0], "de": pair(number)[1]}) for number in range(50)]
    files.pipe_file(f"{store}/in/a.jsonl", "\n".join(lines).encode())
    table = f"{store}/in/*.jsonl"
    with pytest.raises(DataError, match="is a table"):
        tokenize_corpus(recipe(), table, f"{store}/out")
    for wrong in ("en", "en,de,id"):
        with pytest.raises(UserError, match="is not source and target"):
            tokenize_corpus(recipe(), table, f"{store}/out", column=wrong)
    with pytest.raises(UserError, match="into names a column"):
        tokenize_corpus(recipe(), table, f"{store}/out", column="en,de", into="x")
    tokenize_corpus(recipe(), table, f"{store}/out", column="en,de")
    result = train(recipe(tokens=f"{store}/out"), out=tmp_path / "run", threads=1, quiet=True)
    assert result.steps == 8


def loader_of(output, tmp_path, rank=0, size=1):
    storage, index, tokenizers = opened(output, tmp_path)
    examples = CorpusPairs(storage, index).examples(tokenizers.target.pad_id)
    own = examples.order(16, 1)
    share = examples if size == 1 else ProcessShare(examples, rank, size)
    return Loader(share, LoaderSettings(batch_tokens=64, window=16), seed=1, order=own), tokenizers


def rows_of(batch):
    return [tuple(ids) for ids in batch.src_ids.tolist()]


def test_each_pair_is_read_once_an_epoch_and_ranks_share_each_batch(corpus, recipe, tmp_path):
    tokenize_corpus(recipe(), corpus, tmp_path / "out")
    loader, tokenizers = loader_of(tmp_path / "out", tmp_path)
    for epoch in (0, 1):
        batches = list(loader.epoch(epoch))
        texts = [tokenizers.source.decode(ids) for batch in batches for ids in rows_of(batch)]
        assert sorted(texts) == sorted(pair(number)[0] for number in range(FILES * PAIRS))
    assert len(batches) == loader.batches_in_epoch(1)
    shares = [list(loader_of(tmp_path / "out", tmp_path, rank, 3)[0].epoch(1)) for rank in range(3)]
    for batch, *parts in zip(batches, *shares, strict=True):
        found = [row for part in parts if part.num_targets for row in rows_of(part)]
        assert sorted(found) == sorted(rows_of(batch))


def test_groups_of_parts_are_read_ahead_and_dropped_and_a_position_is_enough_to_go_on(
    corpus, recipe, tmp_path, monkeypatch
):
    """With groups of a part or two the loader crosses the borders of groups and epochs."""
    monkeypatch.setattr(order, "GROUP_WINDOWS", 2)
    tokenize_corpus(recipe(), corpus, tmp_path / "out")
    whole, _ = loader_of(tmp_path / "out", tmp_path)
    batches, cursors, kept = [], [], []
    for batch in itertools.islice(whole, 3 * whole.batches_in_epoch(0)):
        batches.append(rows_of(batch))
        cursors.append(whole.cursor)
        kept.append(len(whole.examples._parts._parts))
    assert max(kept) <= 2 * (2 * 16 // PAIRS + 1)
    assert {cursor.epoch for cursor in cursors} >= {0, 1, 2}
    for place in range(0, len(batches) - 1, 3):
        shares = [loader_of(tmp_path / "out", tmp_path, rank, 2)[0] for rank in range(2)]
        found = []
        for loader in shares:
            loader.cursor = cursors[place]
            part = next(iter(loader))
            found += rows_of(part) if part.num_targets else []
        assert sorted(found) == sorted(batches[place + 1])


def test_a_store_that_failed_in_the_background_is_asked_again(corpus, recipe, tmp_path):
    tokenize_corpus(recipe(), corpus, tmp_path / "out")
    storage, index, _ = opened(tmp_path / "out", tmp_path)
    failures = [RunError("the store is away", "wait")] * 2

    def opened_part(content, name):
        if failures:
            raise failures.pop()
        return PairPart.of(content, name)

    reader = PartReader(storage, index, opened_part)
    reader.reads([0], [1])
    while failures:
        time.sleep(0.01)
    assert [len(reader.part(number)) for number in (0, 1, 2)] == [PAIRS] * 3
    failures += [RunError("the store is away", "wait")] * 2
    with pytest.raises(RunError, match="the store is away"):
        reader.part(3)


def test_a_part_that_is_too_large_is_refused(corpus, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_part, "MOST_TOKENS", 50)
    with pytest.raises(DataError, match="a part of the input has more than 50 tokens"):
        tokenize_corpus(recipe(), corpus, tmp_path / "out")


def test_settings_that_changed_before_a_plan_was_written_are_noticed(corpus, recipe, tmp_path):
    tokenize_corpus(recipe(), corpus, tmp_path / "out")
    (tmp_path / "out" / "plan.json").unlink()
    with pytest.raises(DataError, match="was made by other settings of the recipe"):
        tokenize_corpus(recipe([('"words"', '"characters"')]), corpus, tmp_path / "out", shard="1/9")


def test_a_run_without_test_data_is_evaluated_on_a_file(corpus, recipe, tmp_path):
    chosen = recipe()
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    (tmp_path / "valid.tsv").write_text("1 and 1\t1 1\n" * 3)
    files = (
        'synthetic = "copy"\nsplit = "valid"\nsize = 20\nlength = 5\n',
        'file = "valid.tsv"\nformat = "tsv"\n',
    )
    run_folder = train(recipe([files]), out=tmp_path / "run", threads=1, quiet=True).run
    assert regard.evaluate(model=run_folder, data=tmp_path / "valid.tsv", threads=1).examples == "3 pairs"


def digest(folder):
    return checkpoint_digest(RunFolder(folder).latest())


def test_a_run_that_was_stopped_resumes_to_the_bit(corpus, recipe, tmp_path):
    chosen = recipe()
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    train(chosen, out=tmp_path / "whole", threads=1, quiet=True)
    train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000008")
    train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")
    texts = regard.translate(["3 and 3"], model=tmp_path / "run", threads=1)
    assert len(texts) == 1


def test_other_merges_are_dropped_in_each_copy(corpus, recipe, tmp_path):
    tokenizer = ('kind = "words"', 'kind = "bpe"\nvocab_size = 40\ndropout = 0.5\ncopies = 3')
    tokenize_corpus(recipe([tokenizer]), corpus, tmp_path / "out")
    storage, index, tokenizers = opened(tmp_path / "out", tmp_path)
    part = PartReader(storage, index, PairPart.of).part(0)
    copies = [[ids.tolist() for ids in part.copy(epoch).sources(np.arange(PAIRS))] for epoch in range(4)]
    assert copies[0] == copies[3]
    assert copies[0] != copies[1]
    texts = [[tokenizers.source.decode(ids) for ids in copy] for copy in copies]
    assert texts[0] == texts[1] == texts[2] == [pair(number)[0] for number in range(PAIRS)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('kind = "words"', 'kind = "characters"'), "tokenised with kind = 'words'"),
        (("window = 16", "max_tokens = 100"), "tokenised with max_tokens = 256"),
        (
            ("[tokenizer]", "[data.lines]\nmax_characters = 9\n[tokenizer]"),
            "max_characters = its default, and the recipe has 9",
        ),
        (('tokens = "out"', ""), "data.train is missing"),
        (('tokens = "out"', 'tokens = "out"\ntrain.synthetic = "copy"'), "are both given"),
    ],
)
def test_a_recipe_that_does_not_fit_the_corpus_is_refused(corpus, recipe, tmp_path, change, named):
    tokenize_corpus(recipe(), corpus, tmp_path / "out")
    with pytest.raises(RecipeError) as error:
        train(recipe([change]), out=tmp_path / "run", threads=1, quiet=True)
    assert named in error.value.message


def test_tokenisers_of_a_tokenised_corpus_are_not_extended(corpus, recipe, tmp_path):
    with pytest.raises(RecipeError, match="is not for a tokenised corpus"):
        tokenize_corpus(
            recipe([("[tokenizer]", "[tokenizer.extension]\nsize = 9\n[tokenizer]")]),
            corpus,
            tmp_path / "out",
        )


def test_an_incomplete_another_or_a_damaged_corpus_is_refused(corpus, recipe, tmp_path):
    chosen = recipe()
    tokenize_corpus(chosen, corpus, tmp_path / "out", shard="1/2")
    with pytest.raises(DataError, match="3 of 6 parts are not tokenised, the first is part 1"):
        train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    with pytest.raises(DataError, match="is the output of another job: kind was 'words'"):
        tokenize_corpus(recipe([('"words"', '"characters"')], name="b.toml"), corpus, tmp_path / "out")
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    path = tmp_path / "out" / "parts" / "00000002.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="was changed after it was written"):
        train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    with pytest.raises(DataError, match="nowhere does not exist"):
        train(recipe(tokens="nowhere"), out=tmp_path / "other", threads=1, quiet=True)


def test_a_corpus_that_was_made_again_is_another_one(corpus, recipe, tmp_path):
    chosen = recipe()
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    train(chosen, out=tmp_path / "run", threads=1, quiet=True, overrides=["training.max_steps=4"])
    (tmp_path / "out").rename(tmp_path / "old")
    (tmp_path / "in" / "0.tsv").write_text("5\t6\n")
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    with pytest.raises(FolderError, match="has changed since this run began"):
        train(chosen, out=tmp_path / "run", threads=1, quiet=True)


def test_lines_that_cannot_be_used_are_named_or_counted(corpus, recipe, tmp_path):
    (tmp_path / "in" / "9.tsv").write_text("no tab\n1\t2\n\t3\n" + "4 " * 300 + "\t5\n6\t7\t8\n")
    report = tokenize_corpus(recipe(), corpus, tmp_path / "out")
    assert report.failed == 2
    failed = jobs_status(str(tmp_path / "out")).failed
    assert [(line, reason) for _, line, reason in failed] == [
        (1, "0 tabs, not the one between a source and its target"),
        (5, "2 tabs, not the one between a source and its target"),
    ]
    storage, index, _ = opened(tmp_path / "out", tmp_path)
    assert PartReader(storage, index, PairPart.of).part(FILES).lines.tolist() == [2]
    skipped = {name: count for name, count in index.totals.items() if name.startswith("skipped")}
    assert skipped == {"skipped_failed": 2, "skipped_empty": 1, "skipped_too_many_tokens": 1}
    skip = ("[tokenizer]", '[data.lines]\nmalformed = "skip"\n[tokenizer]')
    assert tokenize_corpus(recipe([skip]), corpus, tmp_path / "skipped").failed == 0


def test_a_corpus_without_a_pair_is_refused(recipe, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tsv").write_text("1 2\n")
    with pytest.raises(DataError, match="has no pair: 0 tabs, not the one between"):
        tokenize_corpus(recipe(), f"{tmp_path}/in/*", tmp_path / "out")
    assert not (tmp_path / "out" / "tokenizers.json").exists()
    (tmp_path / "in" / "a.tsv").write_text("1\t2\n")
    tokenize_corpus(recipe([("window = 16", "max_tokens = 1")]), f"{tmp_path}/in/*", tmp_path / "none")
    with pytest.raises(DataError, match="has no example"):
        train(recipe([("window = 16", "max_tokens = 1")], tokens="none"), out=tmp_path / "run", threads=1)


def test_the_tokenisers_of_a_pretrained_model_are_kept(corpus, recipe, tmp_path, untrained):
    init = ("[model]\n", f'[model]\ninit = "{untrained}"\n')
    shape = ("d_model = 16\nnum_heads = 2\nd_ff = 32\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n", "")
    kind = ('[tokenizer]\nkind = "words"\n', "")
    chosen = recipe([init, shape, kind])
    tokenize_corpus(chosen, corpus, tmp_path / "out")
    own = opened(tmp_path / "out", tmp_path)[2]
    assert own is not None
    assert own.digest() == TokenizerPair.load(untrained).digest()
    result = train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    assert TokenizerPair.load(result.model).digest() == own.digest()
    other = recipe([init, shape, kind], tokens="other", name="other.toml")
    tokenize_corpus(recipe([kind], tokens="other"), corpus, tmp_path / "other")
    with pytest.raises(FolderError, match="by another tokeniser than that of the run"):
        train(other, out=tmp_path / "other-run", threads=1, quiet=True)


def test_the_commands(corpus, recipe, tmp_path, capsys):
    chosen, out = str(recipe()), str(tmp_path / "out")
    command = ["data", "tokenize", chosen, "--input", corpus, "--output", out]
    assert run([*command, "--shard", "1/2"]) == 0
    assert run(["jobs", "status", out]) == 0
    assert "3 of 6 parts" in capsys.readouterr().out
    assert run(command) == 0
    assert "6 parts are done, 3 of them before" in capsys.readouterr().err
    assert run(["train", chosen, "--out", str(tmp_path / "run"), "--threads", "1", "--dry-run"]) == 0
    assert run(["train", chosen, "--out", str(tmp_path / "run"), "--threads", "1"]) == 0
    assert "training: 120 pairs in 6 parts" in capsys.readouterr().err
    for wrong, named in (
        ([*command, "--processes", "2"], "--processes is for a cluster"),
        ([*command, "--shard", "0/2"], "is not I/N"),
        ([*command, "--on", "spark"], "is not an engine"),
        (["data", "tokenize", "sst2", *command[3:]], "neither a translation nor a language model"),
    ):
        assert run(wrong) == 2
        assert named in capsys.readouterr().err


LANGUAGE = """
name = "text"
[task]
kind = "language_model"
block = 8
[data]
tokens = "out"
[data.valid]
file = "valid.txt"
document = "line"
[tokenizer]
kind = "characters"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_layers = 1
[batches]
batch_tokens = 64
window = 16
[training]
max_steps = 8
save_every = 4
validate_every = 4
"""


@pytest.fixture
def texts(tmp_path):
    """Files of documents; their pattern."""
    (tmp_path / "valid.txt").write_text("0 and 0\n1 and 1\n")
    (tmp_path / "in").mkdir()
    for file in range(4):
        lines = [f"{pair(file * PAIRS + line)[0]} of {line}" for line in range(PAIRS)]
        (tmp_path / "in" / f"{file}.txt").write_text("\n".join(["", *lines]))
    (tmp_path / "text.toml").write_text(LANGUAGE)
    return f"{tmp_path}/in/*"


def streamed(output, tmp_path, block=8, seed=0):
    storage, index, tokenizers = opened(output, tmp_path)
    return TokenisedCorpus(storage=storage, index=index, settings={}).texts(
        tokenizers.source, block, seed
    ), tokenizers


def test_windows_of_a_part_are_those_of_its_documents(texts, tmp_path):
    tokenize_corpus(tmp_path / "text.toml", texts, tmp_path / "out")
    examples, tokenizers = streamed(tmp_path / "out", tmp_path)
    first = 0
    for file in range(4):
        documents = Documents(DocumentSettings(file=f"in/{file}.txt", document="line"), tmp_path)
        stream = write_stream(documents, tokenizers.source, tmp_path / f"{file}", special_tokens=True)
        whole = WindowExamples(stream, 8, seed=0)
        assert examples.sizes[file] == len(whole)
        everyone = np.arange(len(whole))
        for epoch in (0, 3):
            mine, theirs = examples.batch(first + everyone, epoch), whole.batch(everyone, epoch)
            assert mine.ids.tolist() == theirs.ids.tolist()
            assert mine.labels.tolist() == theirs.labels.tolist()
            assert mine.lines.tolist() == theirs.lines.tolist()
        first += len(whole)
    mixed = np.array([first - 1, 0, len(whole), 1])
    alone = [examples.batch(mixed[place : place + 1], 1).ids[0].tolist() for place in range(4)]
    assert examples.batch(mixed, 1).ids.tolist() == alone


def test_a_language_model_trains_on_parts_and_resumes_to_the_bit(texts, tmp_path):
    chosen = tmp_path / "text.toml"
    for shard in ("2/2", "1/2"):
        tokenize_corpus(chosen, texts, tmp_path / "out", shard=shard)
    totals = opened(tmp_path / "out", tmp_path)[1].totals
    assert (totals["documents"], totals["skipped_empty"]) == (4 * PAIRS, 4)
    train(chosen, out=tmp_path / "whole", threads=1, quiet=True)
    train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000008")
    train(chosen, out=tmp_path / "run", threads=1, quiet=True)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")
    assert regard.generate("1 and", model=tmp_path / "run", max_new_tokens=3, threads=1).startswith("1 and")


def test_records_with_several_lines_are_documents(texts, tmp_path):
    records = [json.dumps({"text": f"{number}\nand {number}"}) for number in range(50)]
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "a.jsonl").write_text("\n".join(records))
    with pytest.raises(DataError, match="is a table"):
        tokenize_corpus(tmp_path / "text.toml", f"{tmp_path}/table/*", tmp_path / "out")
    tokenize_corpus(tmp_path / "text.toml", f"{tmp_path}/table/*", tmp_path / "out", column="text")
    examples, tokenizers = streamed(tmp_path / "out", tmp_path)
    ids = examples.batch(np.arange(len(examples)), 0).labels.flatten().tolist()
    assert "\nand" in tokenizers.source.decode(ids)


def test_what_a_language_model_cannot_have_is_refused(texts, recipe, tmp_path):
    tokenize_corpus(tmp_path / "text.toml", texts, tmp_path / "out")
    for change, named in (
        (("block = 8", "block = 8\napart = true"), "apart is not for a tokenised corpus"),
        (('kind = "characters"', 'kind = "words"'), "tokenised with kind = 'characters'"),
        (("[tokenizer]", '[data.train]\nfile = "valid.txt"\n[tokenizer]'), "are both given"),
    ):
        (tmp_path / "other.toml").write_text(LANGUAGE.replace(*change))
        with pytest.raises(RecipeError, match=named):
            train(tmp_path / "other.toml", out=tmp_path / "run", threads=1, quiet=True)
    with pytest.raises(RecipeError, match="tokenised with task = 'language_model'"):
        train(
            recipe([('kind = "words"', 'kind = "characters"'), ("window = 16", "window = 8")]),
            out=tmp_path / "pairs",
            threads=1,
        )
