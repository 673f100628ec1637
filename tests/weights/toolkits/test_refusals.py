"""What regard cannot compute as a toolkit does is refused, by the name of the setting."""

import pytest

from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.refusals import REFUSED, changed

pytest.importorskip("yaml")


@pytest.mark.parametrize(
    ("toolkit", "refusal"),
    [
        pytest.param(toolkit, refusal, id=f"{toolkit}: {refusal}")
        for toolkit, refusals in REFUSED.items()
        for refusal in refusals
    ],
)
def test_what_is_not_expressible_is_refused_by_name(tmp_path, toolkit, refusal, in_this_process):
    folder = changed(toolkit, refusal, tmp_path / "model")
    found = toolkit_of(folder)
    assert found.name == toolkit
    with pytest.raises(FolderError, match=refusal.named or refusal.name) as caught:
        load_toolkit(found, folder, trust_pickle=True)
    assert caught.value.hint


def test_an_error_has_the_value_too(tmp_path, in_this_process):
    for toolkit, name in (("marian", "transformer-preprocess"), ("joeynmt", "alpha"), ("fairseq", "arch")):
        [refusal] = [each for each in REFUSED[toolkit] if each.name == name]
        folder = changed(toolkit, refusal, tmp_path / toolkit)
        with pytest.raises(FolderError, match=f"{name} = '{refusal.value}'"):
            load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
