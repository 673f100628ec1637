"""The tokeniser suits the script of the references; a missing package is reported with its installation."""

import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

from regard.data.scripts import detect_script
from regard.errors import DataError
from regard.evaluation import tokenizers, translation
from regard.evaluation.by_length import bleu_by_length
from regard.evaluation.tokenizers import (
    PACKAGES,
    TOKENIZERS,
    best_metric_first,
    best_metric_for,
    explain_tokenizer,
    missing_packages,
    tokenizer_for,
)
from regard.evaluation.translation import check_tokenizer, compare_systems, corpus_scores

ENGLISH = ["The cat sat on the mat, and it purred."] * 4
CHINESE = ["猫坐在垫子上，发出呼噜声。"] * 4
JAPANESE = ["猫はマットの上に座っていました。"] * 4
KOREAN = ["고양이가 매트 위에 앉아 있었다."] * 4
THAI = ["แมวนั่งอยู่บนเสื่อ"] * 4


def packages(monkeypatch, *, installed):
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: object() if installed else None)


def test_every_tokeniser_of_sacrebleu_is_offered():
    assert set(TOKENIZERS) == {"auto", *BLEU.TOKENIZERS}


@pytest.mark.parametrize(
    ("texts", "bare", "equipped"),
    [
        (ENGLISH, "13a", "13a"),
        (CHINESE, "zh", "zh"),
        (JAPANESE, "char", "ja-mecab"),
        (KOREAN, "char", "ko-mecab"),
        (THAI, "char", "char"),
        ([*THAI, *CHINESE], "char", "char"),
        (["Где вокзал?"], "13a", "13a"),
        (["1 2 3", ""], "13a", "13a"),
    ],
)
def test_the_tokeniser_fits_the_script_and_what_is_installed(texts, bare, equipped, monkeypatch):
    writing = detect_script(texts)
    packages(monkeypatch, installed=False)
    assert tokenizer_for(writing) == bare
    assert (equipped in explain_tokenizer(bare, writing)) == (bare != "13a" or equipped == bare)
    packages(monkeypatch, installed=True)
    assert tokenizer_for(writing) == equipped


def test_auto_is_13a_for_latin_script_to_the_signature():
    hypotheses = [line.replace("mat", "rug") for line in ENGLISH]
    assert corpus_scores(hypotheses, [ENGLISH]) == corpus_scores(hypotheses, [ENGLISH], tokenize="13a")


def test_chinese_is_scored_by_its_words_where_13a_sees_one_a_line():
    hypotheses = [line.replace("垫子", "地毯") for line in CHINESE]
    bleu, *_ = corpus_scores(hypotheses, [CHINESE], bootstrap=0)
    blind, *_ = corpus_scores(hypotheses, [CHINESE], tokenize="13a", bootstrap=0)
    assert "tok:zh" in bleu.signature
    assert bleu.value > 40 > blind.value
    scores = bleu_by_length(CHINESE, hypotheses, [CHINESE])
    assert scores[0].bleu == bleu.value


def test_the_numbers_are_those_of_the_sacrebleu_command(tmp_path):
    hypotheses = [line.replace("เสื่อ", "พรม") for line in THAI]
    for name, lines in (("out", hypotheses), ("ref", THAI)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    command = f"{tmp_path}/ref -i {tmp_path}/out -m bleu -tok char -b -w 6"
    reference = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *command.split()], capture_output=True, check=True, text=True
    )
    ours, *_ = corpus_scores(hypotheses, [THAI], bootstrap=0)
    assert ours.value == pytest.approx(float(reference.stdout), abs=1e-5)


def test_chrf_leads_where_there_are_no_spaces(monkeypatch):
    packages(monkeypatch, installed=False)
    names = ("bleu", "chrf", "ter")
    assert [best_metric_for(detect_script(texts)) for texts in (ENGLISH, KOREAN)] == ["bleu", "bleu"]
    assert [best_metric_for(detect_script(texts)) for texts in (CHINESE, THAI)] == ["chrf", "chrf"]
    assert best_metric_first(names, detect_script(JAPANESE)) == ("chrf", "bleu", "ter")
    assert best_metric_first(names, detect_script(ENGLISH)) == names


def test_systems_are_compared_by_the_tokeniser_of_the_references(monkeypatch):
    packages(monkeypatch, installed=False)
    shown = compare_systems({"own": JAPANESE, "english": ENGLISH}, [JAPANESE], bootstrap=10)
    assert [each.name for each in shown] == ["chrF2++", "BLEU", "chrF2", "TER"]
    assert "tok:char" in shown[1].signature


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_tokeniser_whose_package_is_missing_is_reported_with_what_to_install(name, monkeypatch):
    packages(monkeypatch, installed=False)
    assert missing_packages(name)
    with pytest.raises(DataError, match=f"tokeniser {name} needs") as caught:
        check_tokenizer(name)
    assert caught.value.hint.startswith("pip install")
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", ["spm", "flores101", "flores200", "spBLEU-1K"])
def test_a_model_that_cannot_be_fetched_is_one_line_and_leaves_nothing(name, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")

    def broken(url, target, progress):
        target.parent.mkdir(parents=True)
        target.write_bytes(b"a beginning")
        raise DataError(f"{url} cannot be reached: no network")

    monkeypatch.setattr(translation, "SACREBLEU_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(translation, "download", broken)
    with pytest.raises(DataError, match=r"needs a model .* cannot be downloaded: .* no network") as caught:
        check_tokenizer(name)
    assert "curl" in caught.value.hint
    assert not list((tmp_path / "cache" / "models").iterdir())


def test_a_dictionary_that_does_not_fit_is_one_line(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("Please make sure to use the IPA dictionary for MeCab")

    packages(monkeypatch, installed=True)
    monkeypatch.setattr(
        translation, "BLEU", type("Refusing", (), {"TOKENIZERS": TOKENIZERS, "__new__": refused})
    )
    with pytest.raises(DataError, match="ja-mecab cannot be started: Please make sure"):
        check_tokenizer("ja-mecab")
