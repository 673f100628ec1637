"""Systems are compared with the first, line by line."""

import shlex

import pytest

from regard.errors import DataError, UserError
from regard.verbs.compare import compare


@pytest.fixture
def outputs(tmp_path):
    reference = [f"the cat number {i} sat on the mat number {i + 1} ." for i in range(40)]
    texts = {
        "ref": reference,
        "good": [line.replace("mat", "rug") if i % 9 == 0 else line for i, line in enumerate(reference)],
        "bad": [line.replace("cat", "dog").replace("sat on", "lay by") for line in reference],
        "short": reference[:-1],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_a_worse_system_has_a_significantly_lower_score(outputs):
    found = compare([outputs / "good", outputs / "bad"], ref=outputs / "ref")
    assert [each.name for each in found] == ["BLEU", "chrF2++", "chrF2", "TER"]
    good, bad = found[0].systems
    assert good.value > bad.value
    assert good.p_value is None
    assert bad.p_value is not None
    assert bad.p_value < 0.05


def test_several_references_may_be_given(outputs):
    one = compare([outputs / "good", outputs / "bad"], ref=outputs / "ref")
    two = compare([outputs / "good", outputs / "bad"], ref=[outputs / "ref", outputs / "bad"])
    assert two[0].systems[1].value == pytest.approx(100)
    assert one[0].systems[1].value < 100


def test_one_system_alone_has_its_scores(outputs):
    alone = compare([outputs / "good"], ref=outputs / "ref")
    among = compare([outputs / "good", outputs / "bad"], ref=outputs / "ref")
    assert [each.systems for each in alone] == [each.systems[:1] for each in among]
    assert [each.signature for each in alone] == [each.signature for each in among]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "there is no output to score"),
        (["good", "good"], "good is named twice"),
        (["good", "short"], "39 lines, the reference 40"),
        (["good", "gone"], "no such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(outputs, names, message):
    with pytest.raises(DataError, match=message):
        compare([outputs / name for name in names], ref=outputs / "ref")


@pytest.fixture
def numbers(tmp_path):
    texts = {
        "src": [f"{i % 10} {i % 7}" for i in range(40)],
        "ref": [f"{i % 10} {i % 7} {i % 3}" for i in range(40)],
        "one": [f"{i % 10} {i % 3}" for i in range(40)],
        "two": [f"{i % 7} {i % 3} {i % 10} 5" for i in range(40)],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_learned_metrics_are_compared_too(numbers, metrics):
    systems = [numbers / "one", numbers / "two"]
    found = compare(systems, ref=numbers / "ref", src=numbers / "src", metric=metrics / "apart")
    assert [each.name for each in found] == ["BLEU", "chrF2++", "chrF2", "TER", "apart"]
    one, two = found[3].systems
    assert one.value != two.value
    assert two.p_value is not None
    assert [len(each) for each in found[4].segments.values()] == [40, 40]


def test_a_metric_of_sources_compares_without_references(numbers, metrics):
    systems = [numbers / "one", numbers / "two"]
    [found] = compare(systems, src=numbers / "src", metric=metrics / "source-joined")
    assert found.name == "source-joined"
    with pytest.raises(UserError, match="are for BLEU"):
        compare(systems, src=numbers / "src", metric=metrics / "source-joined", lowercase=True)


def test_what_a_metric_lacks_and_a_source_without_a_metric_are_refused(numbers, metrics):
    systems = [numbers / "one", numbers / "two"]
    with pytest.raises(UserError, match="apart compares a translation with its source"):
        compare(systems, ref=numbers / "ref", metric=metrics / "apart")
    with pytest.raises(UserError, match="src is for learned metrics"):
        compare(systems, ref=numbers / "ref", src=numbers / "src")
    (numbers / "src").write_text("1\n")
    with pytest.raises(DataError, match="40 lines, the source 1"):
        compare(systems, src=numbers / "src", metric=metrics / "source-joined")
    with pytest.raises(DataError, match="no reference"):
        compare(systems)


def test_labels_are_compared_by_accuracy_and_not_as_translations(tmp_path):
    for name, place in (("gold", 0), ("one", 0), ("two", 1)):
        (tmp_path / name).write_text("spam\nham\n" * 20 if place == 0 else "ham\nham\n" * 20)
    systems, ref = [tmp_path / "one", tmp_path / "two"], tmp_path / "gold"
    [found] = compare(systems, ref=ref)
    assert found.name == "accuracy"
    assert [each.value for each in found.systems] == [100, 50]
    assert compare(systems, ref=ref, labels=False)[0].name == "BLEU"
    with pytest.raises(UserError, match="labels are compared with one file"):
        compare(systems, ref=[ref, ref], labels=True)


def test_a_folder_is_no_system_and_its_name_is_quoted_in_what_to_do(tmp_path):
    (tmp_path / "run 1").mkdir()
    with pytest.raises(UserError, match="is a folder") as caught:
        compare([tmp_path / "run 1"], ref=tmp_path / "ref")
    assert f"--model {shlex.quote(str(tmp_path / 'run 1'))} --input" in caught.value.hint


def test_a_folder_is_no_system(outputs):
    with pytest.raises(UserError, match="is a folder; a system is a file of its outputs") as caught:
        compare([outputs], ref=outputs / "ref")
    assert "regard classify" in caught.value.hint
