"""Forced scores are those that the search gives its own translations."""

import json

import pytest

from regard.errors import DataError, UserError
from regard.verbs.score import score
from regard.verbs.translate import Translator


@pytest.fixture
def files(tmp_path):
    def written(**contents):
        for name, lines in contents.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return [tmp_path / name for name in contents]

    return written


def test_an_output_has_the_score_that_decoding_reported(untrained, files):
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


def test_pairs_in_one_file_have_the_scores_of_those_in_two(untrained, files):
    src, ref, pairs = files(src=["1 2", "4 5"], ref=["2 1", "5 6"], pairs=["1 2\t2 1", "4 5\t5 6"])
    found = score(model=untrained, data=pairs).scores
    assert found == score(model=untrained, src=src, ref=ref).scores
    assert score(model=untrained, data=pairs, columns=("1", "0")).scores != found
    with pytest.raises(UserError, match="two files, or pairs from one"):
        score(model=untrained, src=src, data=pairs)


def test_files_that_are_not_aligned_and_lines_too_long_are_refused(untrained, files):
    src, ref, long = files(src=["1", "2"], ref=["1"], long=["1", "2 " * 5000])
    with pytest.raises(DataError, match="2 lines, the reference 1"):
        score(model=untrained, src=src, ref=ref)
    with pytest.raises(DataError, match="long:2: 10,000 characters"):
        score(model=untrained, src=src, ref=long)


def test_files_are_checked_before_a_model_is_loaded(tmp_path, files):
    [pairs] = files(pairs=["1\t2"])
    with pytest.raises(DataError, match="no such file"):
        score(model=tmp_path / "no-model", data=tmp_path / "none")
    with pytest.raises(UserError, match="two files, or pairs from one"):
        score(model=tmp_path / "no-model", data=pairs, src=pairs)


def test_texts_are_for_a_language_model(untrained, files):
    src, ref = files(src=["1"], ref=["1"])
    with pytest.raises(UserError, match="this model translates"):
        score(model=untrained, input=src)
    with pytest.raises(UserError, match="this model translates"):
        score(model=untrained, src=src, ref=ref, begin=True)


def test_a_source_is_read_as_translate_reads_it(their_folder, files):
    """With the prefix of the model's folder, or the one that is given."""
    sizes = {"d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 1, "d_ff": 24}
    marks = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    t5, *_ = their_folder("T5ForConditionalGeneration", "T5Config", {**sizes, **marks}, pieces="bytes")
    config = json.loads((t5 / "config.json").read_text("utf-8"))
    tasks = {"task_specific_params": {"translation_en_to_de": {"prefix": "to German: "}}}
    (t5 / "config.json").write_text(json.dumps({**config, **tasks}), "utf-8")
    reported = ["to German: a film", "to German: of"]
    bare, whole, ref = files(bare=["a film", " of "], whole=reported, ref=["b", "c"])
    usual = score(model=t5, src=bare, ref=ref).scores
    assert usual == score(model=t5, src=bare, ref=ref, prefix="to German: ").scores
    assert usual == score(model=t5, src=whole, ref=ref, prefix="").scores
    assert usual != score(model=t5, src=bare, ref=ref, prefix="").scores
