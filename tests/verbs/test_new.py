"""Two files become a recipe that can be trained, and what it validates on is never trained on."""

import gzip

import pytest

from regard.cli import run
from regard.errors import DataError, RecipeError
from regard.evaluation import tokenizers
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.recipe import read_toml
from regard.verbs.new import new
from regard.verbs.plan import TIERS, plan_for


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


def test_every_pair_stands_on_one_side_and_no_sentence_on_both(corpus, tmp_path):
    written = new(*corpus, out=tmp_path / "my.toml")
    train, valid = (
        list(zip(lines(written.data / f"{part}.source"), lines(written.data / f"{part}.target"), strict=True))
        for part in ("train", "valid")
    )
    assert len(train) == written.train_pairs
    assert len(valid) == written.valid_pairs
    assert sorted(train + valid) == sorted(zip(lines(corpus[0]), lines(corpus[1]), strict=True))
    assert valid
    assert not {source for source, _ in train} & {source for source, _ in valid}


def test_the_same_lines_are_held_out_whatever_their_order(corpus, tmp_path):
    first = new(*corpus, out=tmp_path / "first.toml")
    turned = [write(tmp_path / f"turned.{path.suffix[1:]}", lines(path)[::-1]) for path in corpus]
    second = new(*turned, out=tmp_path / "second.toml")
    assert sorted(lines(first.data / "valid.source")) == sorted(lines(second.data / "valid.source"))


def test_the_recipe_names_its_data_from_where_it_lies_and_a_model_that_can_be_built(corpus, tmp_path):
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
    assert written.train_pairs + written.valid_pairs == 40


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
    with pytest.raises(RecipeError, match=r"here\.toml is there already"):
        new(*corpus, out=tmp_path / "here.toml")
    few = write(tmp_path / "few.en", ["a"] * 5), write(tmp_path / "few.de", ["b"] * 5)
    with pytest.raises(DataError, match="5 pairs are too few"):
        new(*few, out=tmp_path / "few.toml")
    same = write(tmp_path / "same.en", ["a"] * 50), write(tmp_path / "same.de", ["b"] * 50)
    with pytest.raises(DataError, match="all its source lines are the same"):
        new(*same, out=tmp_path / "same.toml")
    names = {path.name for path in tmp_path.iterdir()}
    assert not {name for name in names if "partial" in name or name.endswith(".data")}


def test_sides_that_share_no_letters_get_a_vocabulary_each(corpus, tmp_path):
    russian = write(tmp_path / "train.ru", [f"Предложение номер {i}, из корпуса" for i in range(200)])
    written = new(corpus[0], russian, out=tmp_path / "r.toml")
    assert written.survey.shared_letters < 0.5
    assert not written.plan.joint
    assert new(*corpus, out=tmp_path / "joint.toml").plan.joint


def test_a_script_without_spaces_is_scored_by_its_characters(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    japanese = write(tmp_path / "train.ja", [f"これはコーパスの{i}番目の文です。" for i in range(200)])
    table, _ = read_toml(new(corpus[0], japanese, out=tmp_path / "ja.toml").recipe)
    assert table["validation"]["tokenize"] == "char"
    assert table["training"]["best_metric"] == "chrf"
    table, _ = read_toml(new(*corpus, out=tmp_path / "de.toml").recipe)
    assert table["validation"]["tokenize"] == "13a"
    assert table["training"]["best_metric"] == "bleu"


def test_what_looks_wrong_is_said_in_a_line_each(corpus, tmp_path, capsys):
    shifted = write(tmp_path / "shifted.de", lines(corpus[0])[::-1])
    assert run(["new", str(corpus[0]), str(shifted), "--out", str(tmp_path / "s.toml")]) == 0
    findings = new(corpus[0], shifted, out=tmp_path / "t.toml").survey.findings
    assert findings
    shown = capsys.readouterr().err
    assert all(finding.text in shown for finding in findings)
    assert len(shown.splitlines()) == len(findings)


@pytest.mark.parametrize("pairs", [20, 4999, 29_000, 160_000, 1_000_000, 30_000_000])
def test_the_plan_grows_with_the_corpus_and_names_a_known_preset(pairs):
    plan, more = (plan_for(count, 20.0 * count, 1.0) for count in (pairs, 2 * pairs))
    assert plan.tier.preset in EncoderDecoderConfig.presets
    assert 1000 <= plan.max_steps <= 100_000
    assert plan.warmup_steps < plan.max_steps
    assert TIERS.index(more.tier) >= TIERS.index(plan.tier)
