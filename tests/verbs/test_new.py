"""Two files become a recipe that can be trained, and what it validates on is never trained on."""

import functools
import gzip
import json
import random
import re

import pytest

from regard.cli import run
from regard.data import corpus_statistics
from regard.data.line_sample import LineSample
from regard.errors import DataError, RecipeError, UserError
from regard.evaluation import tokenizers
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.recipe import read_toml
from regard.verbs.new import new
from regard.verbs.proposals import plan
from regard.verbs.proposals.training_speed import Speed, measure_speed
from regard.verbs.shared.settings import load_recipe
from tests.nightly import nightly_but

SPEED = Speed(
    target_tokens_per_second=4e3, target_tokens_per_update=350.0, target_tokens_per_pair=15.0, threads=1
)


@pytest.fixture(autouse=True)
def _known_speed(monkeypatch):
    """That of every model: to train one for a moment takes longer than all else that a proposal needs."""
    monkeypatch.setattr(plan, "measure_speed", lambda *given, **named: SPEED)


@pytest.fixture
def measured(monkeypatch, _known_speed):
    """The speed is measured, for a moment."""
    monkeypatch.setattr(plan, "measure_speed", measure_speed)
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_PAIRS", 50)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def corpus(tmp_path):
    english = [f"sentence number {i % 150} of the corpus" for i in range(200)]
    german = [f"Satz Nummer {i % 150} des Korpus, zum {i // 150}. Mal" for i in range(200)]
    return write(tmp_path / "train.en", english), write(tmp_path / "train.de", german)


def lines(path):
    return path.read_text("utf-8").splitlines()


def test_every_pair_is_trained_on_or_held_out_and_no_sentence_is_both(corpus, tmp_path):
    written = new(*corpus, out=tmp_path / "my.toml")
    train, valid = (
        list(zip(lines(written.data / f"{part}.source"), lines(written.data / f"{part}.target"), strict=True))
        for part in ("train", "valid")
    )
    assert len(train) == written.train
    assert len(valid) == written.valid
    assert sorted(train + valid) == sorted(zip(lines(corpus[0]), lines(corpus[1]), strict=True))
    assert valid
    assert not {source for source, _ in train} & {source for source, _ in valid}


def test_the_same_lines_are_held_out_whatever_their_order(corpus, tmp_path):
    first = new(*corpus, out=tmp_path / "first.toml")
    turned = [write(tmp_path / f"turned.{path.suffix[1:]}", lines(path)[::-1]) for path in corpus]
    second = new(*turned, out=tmp_path / "second.toml")
    assert sorted(lines(first.data / "valid.source")) == sorted(lines(second.data / "valid.source"))


def test_the_recipe_names_its_data_by_relative_paths_and_a_model_that_can_be_built(corpus, tmp_path):
    written = new(*corpus, out=tmp_path / "deep" / "my recipe.toml")
    table, text = read_toml(written.recipe)
    assert (written.recipe.parent / table["data"]["train"]["source"]).is_file()
    assert (written.recipe.parent / table["data"]["valid"]["target"]).is_file()
    assert (
        EncoderDecoderConfig.from_table(table["model"], src_vocab_size=100, tgt_vocab_size=100).tied == "all"
    )
    assert "regard train 'my recipe.toml' --dry-run" in text


def test_lines_that_cannot_be_used_are_left_out_and_counted(tmp_path):
    source = write(tmp_path / "a", ["", *(f"line {i}" for i in range(40)), "x" * 6000])
    target = write(tmp_path / "b", ["nothing", *(f"Zeile {i}" for i in range(40)), "long"])
    written = new(source, target, out=tmp_path / "r.toml")
    assert written.skipped == {"empty": 1, "too_long": 1}
    assert written.train + written.valid == 40


def test_gzipped_files_are_read_and_the_recipe_is_named_after_the_files(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zipped = []
    for path in corpus:
        zipped.append(tmp_path / f"{path.name}.gz")
        zipped[-1].write_bytes(gzip.compress(path.read_bytes()))
    written = new(*zipped)
    assert str(written.recipe) == "train-en-de.toml"
    assert written.data.is_dir()


def test_nothing_is_overwritten_and_nothing_half_written_is_left(corpus, tmp_path):
    (tmp_path / "here.toml").write_text("mine")
    with pytest.raises(RecipeError, match=r"here\.toml exists already"):
        new(*corpus, out=tmp_path / "here.toml")
    few = write(tmp_path / "few.en", ["a"] * 5), write(tmp_path / "few.de", ["b"] * 5)
    with pytest.raises(DataError, match="5 pairs are too few"):
        new(*few, out=tmp_path / "few.toml")
    same = write(tmp_path / "same.en", ["a"] * 50), write(tmp_path / "same.de", ["b"] * 50)
    with pytest.raises(DataError, match="all source lines are the same"):
        new(*same, out=tmp_path / "same.toml")
    (tmp_path / "link.toml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecipeError, match=r"link\.toml exists already"):
        new(*corpus, out=tmp_path / "link.toml")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    for out in (tmp_path / "run", tmp_path / "run" / "mine.toml"):
        with pytest.raises(RecipeError, match="run is the folder of a run"):
            new(*corpus, out=out)
    names = {path.name for path in tmp_path.iterdir()}
    assert not {name for name in names if "partial" in name or name.endswith(".data")}


def test_the_user_s_validation_and_test_files_are_read_in_place_and_nothing_is_held_out(corpus, tmp_path):
    (tmp_path / "a folder").mkdir()
    dev = [write(tmp_path / "a folder" / f"dev.{side}", ["one", "two"]) for side in "ab"]
    test = [write(tmp_path / f"test.{side}", ["three", "four", "five"]) for side in "ab"]
    written = new(*corpus, valid=dev, test=test, out=tmp_path / "recipes" / "my.toml")
    assert (written.train, written.valid, written.test) == (200, 2, 3)
    assert sorted(file.name for file in written.data.iterdir()) == ["train.source", "train.target"]
    recipe = load_recipe(written.recipe).recipe
    assert recipe.data.valid.source == "../a folder/dev.a"
    assert recipe.data.test.target == "../test.b"
    assert (written.recipe.parent / recipe.data.valid.target).samefile(dev[1])


@pytest.mark.parametrize(
    "name",
    nightly_but(
        ["pairs.tsv", "pairs.csv", "pairs.jsonl", "hf.jsonl", "pairs.txt", "pairs.tsv.gz"],
        "pairs.csv",
        "hf.jsonl",
        "pairs.tsv.gz",
    ),
)
def test_pairs_in_one_file_are_those_of_two(corpus, tmp_path, name):
    english, german = map(lines, corpus)
    rows = {
        "pairs.tsv": ["en\tde", *map("\t".join, zip(english, german, strict=True))],
        "pairs.csv": ["English,German", *(f'"{a}","{b}"' for a, b in zip(english, german, strict=True))],
        "pairs.jsonl": [json.dumps({"source": a, "target": b}) for a, b in zip(english, german, strict=True)],
        "hf.jsonl": [
            json.dumps({"id": str(i), "translation": {"en": a, "de": b}})
            for i, (a, b) in enumerate(zip(english, german, strict=True))
        ],
        "pairs.txt": list(map("\t".join, zip(english, german, strict=True))),
    }
    path = write(tmp_path / name, rows[name.removesuffix(".gz")])
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    two, one = new(*corpus, out=tmp_path / "two.toml"), new(path, out=tmp_path / "one.toml")
    assert one.task == "translation"
    for file in ("train.source", "train.target", "valid.source", "valid.target"):
        assert lines(one.data / file) == lines(two.data / file)
    load_recipe(one.recipe)


def test_columns_can_be_chosen_by_name_and_by_number(corpus, tmp_path):
    english, german = map(lines, corpus)
    rows = [f"{i}\t{a}\t{i}\t{b}" for i, (a, b) in enumerate(zip(english, german, strict=True))]
    path = write(tmp_path / "four.tsv", rows)
    turned = new(path, columns=["3", "1"], out=tmp_path / "turned.toml")
    assert set(lines(turned.data / "train.source")) <= set(german)
    assert turned.reading == "translation (columns number 3 and number 1; not used: number 0, number 2)"
    by_number = new(path, columns=[3, 1], out=tmp_path / "numbers.toml")
    assert (by_number.data / "train.source").read_text() == (turned.data / "train.source").read_text()
    with pytest.raises(DataError, match="no column 'fr'"):
        new(path, columns=["fr", "1"], out=tmp_path / "other.toml")


def test_columns_that_are_not_used_are_named(corpus, tmp_path):
    english, german = map(lines, corpus)
    rows = [
        json.dumps({"id": i, "en": a, "de": b, "fr": f"phrase {i}"})
        for i, (a, b) in enumerate(zip(english, german, strict=True))
    ]
    written = new(write(tmp_path / "three.jsonl", rows), columns=["de", "fr"], out=tmp_path / "r.toml")
    assert written.reading == "translation (columns de and fr; not used: id, en)"


def test_a_recipe_is_put_into_a_folder_and_parents_are_made(corpus, tmp_path):
    written = new(*corpus, out=f"{tmp_path}/made/deep/")
    assert written.recipe == tmp_path / "made" / "deep" / "train-en-de.toml"
    again = new(*corpus, out=tmp_path / "made" / "ver.2")
    assert again.recipe == tmp_path / "made" / "ver.2.toml"
    load_recipe(again.recipe)


def test_unusual_file_names_give_a_recipe_that_can_be_read(corpus, tmp_path):
    odd = tmp_path / 'it\'s "odd" {x}  # ü\t'
    odd.mkdir()
    for path in corpus:
        path.rename(odd / path.name)
    dev = [write(odd / f"dev\x7f.{side}", ["one"]) for side in "ab"]
    written = new(odd / "train.en", odd / "train.de", valid=dev, out=odd / "{my}  # recipe.toml")
    recipe = load_recipe(written.recipe).recipe
    assert recipe.name == "{my}  # recipe"
    assert (odd / recipe.data.train.source).is_file()
    assert (odd / recipe.data.valid.source).samefile(dev[0])


def test_files_that_are_no_corpus_are_refused_by_name(corpus, tmp_path):
    def refused(*files, **given):
        with pytest.raises(UserError) as caught:
            new(*files, **given, out=tmp_path / "r.toml")
        assert caught.value.hint
        return caught.value.message

    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"PK\0\1" * 50)
    (tmp_path / "mac.txt").write_bytes(b"one\rtwo\r")
    (tmp_path / "wide.txt").write_bytes("text\n".encode("utf-16"))
    assert "no such file" in refused(tmp_path / "nowhere", corpus[1])
    assert "is a folder" in refused(tmp_path, corpus[1])
    assert "is empty" in refused(corpus[0], tmp_path / "empty")
    assert "is not a text file" in refused(tmp_path / "binary")
    assert "is UTF-16" in refused(tmp_path / "wide.txt")
    assert "end with CR alone" in refused(tmp_path / "mac.txt")
    assert "is named twice" in refused(corpus[0], corpus[0])
    assert "is named twice" in refused(*corpus, valid=corpus)
    assert "two to train on" in refused(*corpus, valid=write(tmp_path / "dev", ["one", "two"]))
    assert "reads one file" in refused(*corpus, task="tagging")
    tables = [write(tmp_path / f"{name}.csv", ["a,b"]) for name in ("one", "two")]
    assert "is a table" in refused(*tables)
    assert not (tmp_path / "r.toml").exists()
    assert not (tmp_path / "r.data").exists()


def test_a_task_that_is_not_known_is_answered_with_the_nearest(corpus, tmp_path):
    with pytest.raises(RecipeError, match="unknown task 'clasification'") as caught:
        new(corpus[0], task="clasification", out=tmp_path / "r.toml")
    assert caught.value.hint == "did you mean 'classification'?"


def test_sides_that_share_no_letters_get_a_vocabulary_each(corpus, tmp_path):
    russian = write(tmp_path / "train.ru", [f"Предложение номер {i}, из корпуса" for i in range(200)])
    written = new(corpus[0], russian, out=tmp_path / "r.toml")
    assert not read_toml(written.recipe)[0]["tokenizer"]["joint"]
    assert read_toml(new(*corpus, out=tmp_path / "joint.toml").recipe)[0]["tokenizer"]["joint"]


def test_a_script_without_spaces_is_scored_by_its_characters(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    japanese = write(tmp_path / "train.ja", [f"これはコーパスの{i}番目の文です。" for i in range(200)])
    table, _ = read_toml(new(corpus[0], japanese, out=tmp_path / "ja.toml").recipe)
    assert table["validation"]["tokenize"] == "char"
    assert table["training"]["best_metric"] == "chrf++"
    table, _ = read_toml(new(*corpus, out=tmp_path / "de.toml").recipe)
    assert table["validation"]["tokenize"] == "13a"
    assert table["training"]["best_metric"] == "bleu"


def test_each_problem_of_a_corpus_is_a_warning(corpus, tmp_path, capsys):
    shifted = write(tmp_path / "shifted.de", lines(corpus[0])[::-1])
    assert run(["new", str(corpus[0]), str(shifted), "--out", str(tmp_path / "s.toml")]) == 0
    warnings = new(corpus[0], shifted, out=tmp_path / "t.toml").warnings
    assert warnings
    assert capsys.readouterr().err.splitlines() == [f"warning: {warning}" for warning in warnings]


def test_all_lines_with_problems_are_listed_and_clean_leaves_them_out(corpus, tmp_path):
    german = lines(corpus[1])
    broken = {
        10 * i + 4: text.replace("Nummer", "Nummer fÃ¼r &amp;") for i, text in enumerate(german[3:93:10])
    }
    write(corpus[1], [broken.get(line, text) for line, text in enumerate(german, start=1)])

    found = new(*corpus, out=tmp_path / "all.toml")
    listed = [row.split("\t") for row in lines(found.data / "problems.tsv")]
    assert listed[0] == ["line", "problem", "source", "target"]
    assert {int(row[0]): row[3] for row in listed[1:]} == broken
    assert {row[1] for row in listed[1:]} == {"broken characters, HTML entities"}
    assert found.train + found.valid == 200
    assert not found.skipped

    cleaned = new(*corpus, out=tmp_path / "clean.toml", clean=True)
    assert cleaned.train + cleaned.valid == 200 - len(broken)
    assert cleaned.skipped == {"broken characters": len(broken)}
    kept = [text for part in ("train", "valid") for text in lines(cleaned.data / f"{part}.target")]
    assert sorted(kept) == sorted(text for text in lines(corpus[1]) if text not in broken.values())
    assert lines(cleaned.data / "problems.tsv") == lines(found.data / "problems.tsv")
    assert any("9 pairs left out: " in warning for warning in cleaned.warnings)


def test_misaligned_lines_are_in_the_data_even_with_clean_and_the_warning_says_so(tmp_path):
    generator = random.Random(1)
    counts = [generator.randrange(1, 30) for _ in range(600)]
    texts = [[" ".join(f"{word}{i}" for i in range(count)) for count in counts] for word in ("one", "eins")]
    texts[1][200:400] = texts[1][201:401]
    files = [
        write(tmp_path / f"shifted.{side}", each) for side, each in zip(("en", "de"), texts, strict=True)
    ]
    for clean, said in ((False, "--clean does not leave these lines out"), (True, "are still in the data")):
        written = new(*files, out=tmp_path / f"{clean}.toml", clean=clean)
        [warning] = [each for each in written.warnings if "look misaligned: from line" in each]
        assert warning.endswith(f"{said}: align the files first")


def test_a_problem_has_one_count_and_the_description_that_of_the_pairs_to_train_on(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus_statistics, "LineSample", functools.partial(LineSample, pairs=40))
    german = lines(corpus[1])
    write(corpus[1], [text + " &amp;" if i % 20 < 7 else text for i, text in enumerate(german)])
    written = new(*corpus, out=tmp_path / "r.toml", clean=True)
    listed = len(lines(written.data / "problems.tsv")) - 1
    assert written.skipped == {"HTML entities": listed} == {"HTML entities": 70}
    assert any(each.startswith("70 pairs with characters as HTML") for each in written.warnings)
    assert (
        f"{written.train:,} pairs of train.en and train.de" == load_recipe(written.recipe).recipe.description
    )


def test_clean_leaves_out_repeated_pairs_and_sources_that_are_validated_or_tested_on(corpus, tmp_path):
    english, german = map(lines, corpus)
    write(corpus[0], [*english, *english[:3], "in both"])
    write(corpus[1], [*german, *german[:3], "in beiden"])
    dev = [write(tmp_path / f"dev.{side}", [text, "two"]) for side, text in (("a", "in both"), ("b", "x"))]

    def remarks(written):
        return [
            each for each in (*written.warnings, *written.notes) if "repeat" in each or "data too" in each
        ]

    found = new(*corpus, valid=dev, out=tmp_path / "all.toml")
    assert (found.train, found.skipped) == (204, {})
    assert all(each.endswith("; --clean leaves them out") for each in remarks(found))
    cleaned = new(*corpus, valid=dev, clean=True, out=tmp_path / "clean.toml")
    assert cleaned.train == 200
    assert cleaned.skipped == {"repeated pair": 3, "source in validation or test data": 1}
    assert len(remarks(cleaned)) == 2
    assert all(each.endswith("; left out") for each in remarks(cleaned))
    kept = list(zip(lines(cleaned.data / "train.source"), lines(cleaned.data / "train.target"), strict=True))
    assert kept == list(zip(english, german, strict=True))


def test_too_few_pairs_are_a_warning_unless_a_trained_model_learns_them(corpus, tmp_path):
    [warning] = new(*corpus, out=tmp_path / "r.toml").warnings
    assert warning.startswith("190 pairs to train on are too few")


def test_a_header_that_is_repeated_in_joined_tables_is_left_out_and_counted(corpus, tmp_path):
    english, german = map(lines, corpus)
    rows = [f"{a}\t{b}" for a, b in zip(english, german, strict=True)]
    pairs = new(write(tmp_path / "p.tsv", ["en\tde", *rows, "en\tde"]), out=tmp_path / "p.toml")
    assert (pairs.train + pairs.valid, pairs.skipped) == (200, {"repeated header": 1})
    labels = [f"{text},{'ab'[i % 2]}" for i, text in enumerate(english)]
    texts = new(write(tmp_path / "t.csv", ["text,label", *labels, "text,label"]), out=tmp_path / "t.toml")
    assert (texts.train + texts.valid, texts.skipped) == (200, {"repeated header": 1})


def test_a_good_corpus_has_no_list_and_only_pairs_are_cleaned(corpus, tmp_path):
    assert not (new(*corpus, out=tmp_path / "good.toml", clean=True).data / "problems.tsv").exists()
    texts = write(tmp_path / "texts.txt", [f"A text with the number {i} of many." for i in range(300)])
    with pytest.raises(RecipeError, match="clean is for the pairs of a translation"):
        new(texts, task="language_model", clean=True, out=tmp_path / "texts.toml")


def test_the_run_fits_the_minutes(corpus, tmp_path):
    short = read_toml(new(*corpus, minutes=0.2, cores=1, out=tmp_path / "short.toml").recipe)[0]
    long = read_toml(new(*corpus, minutes=5.0, cores=1, out=tmp_path / "long.toml").recipe)[0]
    assert short["training"]["max_steps"] < long["training"]["max_steps"]


def test_the_command_measures_the_speed_and_prints_the_run(corpus, tmp_path, capsys, measured):
    command = ["new", *map(str, corpus), "--minutes", "5", "--cores", "1", "--out", str(tmp_path / "r.toml")]
    assert run(command) == 0
    output = capsys.readouterr().out
    assert re.search(r"a model of [\d.]+ M parameters, [\d,]+ updates \(\d+ epochs\), about", output)
    assert f"regard train {tmp_path / 'r.toml'} --device cpu --threads 1" in output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minutes": 0.0}, "minutes must be above 0"),
        ({"minutes": float("nan")}, "minutes must be a finite number, not nan"),
        ({"cores": 0}, "cores is 0, but must be at least 1"),
        ({"cores": 100_000}, "cores is 100000, but must be at most"),
        ({"minutes": 5.0, "task": "language_model"}, "minutes and cores are for translations"),
    ],
)
def test_an_impossible_time_or_number_of_cores_is_refused(corpus, tmp_path, given, message):
    files = corpus[:1] if "task" in given else corpus
    with pytest.raises(UserError, match=message):
        new(*files, **given, out=tmp_path / "r.toml")
