"""Systems are compared with the first, line by line."""

import pytest

from regard.errors import DataError
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
    assert [each.name for each in found] == ["BLEU", "chrF2++", "TER"]
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


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["good"], "one system alone"),
        (["good", "good"], "good is named twice"),
        (["good", "short"], "39 lines, the reference 40"),
        (["good", "gone"], "no such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(outputs, names, message):
    with pytest.raises(DataError, match=message):
        compare([outputs / name for name in names], ref=outputs / "ref")
