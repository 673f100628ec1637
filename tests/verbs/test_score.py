"""Forced scores are those that the search gives its own translations."""

import pytest

from regard.errors import DataError
from regard.verbs.score import score
from regard.verbs.translate import Translator


@pytest.fixture
def files(tmp_path):
    def written(**contents):
        for name, lines in contents.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return [tmp_path / name for name in contents]

    return written


def test_what_a_model_says_it_scores_as_when_it_said_it(untrained, files):
    sources = ["1 2 3", "4", "0 9 8 7"]
    said = [each.candidates[0] for each in Translator(untrained, beam_size=4)(sources)]
    whole = [candidate for candidate in said if "<unk>" not in candidate.text]
    assert whole
    src, ref = files(src=sources, ref=[candidate.text for candidate in said])
    found = score(model=untrained, src=src, ref=ref)
    for candidate, forced in zip(said, found.scores, strict=True):
        if candidate in whole and forced.num_tokens == len(candidate.tokens) + 1:
            assert forced.log_prob == pytest.approx(candidate.log_prob, abs=1e-4)
    assert found.perplexity > 1
    assert [record["line"] for record in found.to_dicts()] == [1, 2, 3]


def test_files_that_are_not_aligned_and_lines_too_long_are_refused(untrained, files):
    src, ref, long = files(src=["1", "2"], ref=["1"], long=["1", "2 " * 5000])
    with pytest.raises(DataError, match="2 lines, the reference 1"):
        score(model=untrained, src=src, ref=ref)
    with pytest.raises(DataError, match="long:2: 10,000 characters"):
        score(model=untrained, src=src, ref=long)
