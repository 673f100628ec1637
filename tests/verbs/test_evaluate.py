"""A model's translations are scored against references, one or several."""

import inspect
import math

import pytest

import regard
from regard.errors import DataError, UserError
from regard.verbs.compare import compare
from regard.verbs.evaluate import evaluate
from regard.verbs.translate import translate

JSON_PAIR = '{{"a": "{src}", "b": "{ref}"}}'


@pytest.fixture
def files(untrained, tmp_path):
    """A source, the model's translation of it, and another reference."""
    sources = [f"{i} {i + 1} {9 - i} {i} 3" for i in range(8)]
    contents = {
        "src": sources,
        "own": translate(sources, model=untrained),
        "other": sources,
        "short": sources[1:],
    }
    for name, lines in contents.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_translations_equal_to_the_references_score_100(untrained, files):
    found = evaluate(model=untrained, src=files / "src", ref=files / "own", tokenize="none")
    assert found.translations == (files / "own").read_text().splitlines()
    assert [round(score.value, 6) for score in found.scores] == [100, 100, 100, 0]
    assert all("|" in score.signature for score in found.scores)
    assert all(score.low is None for score in found.scores)  # eight lines are too few for an interval
    printed = found.to_dict()
    assert printed["sentences"] == 8
    assert printed["beam_size"] == 2
    assert [score["name"] for score in printed["scores"]] == ["BLEU", "chrF2++", "chrF2", "TER"]


def test_of_several_references_the_nearest_counts(untrained, files):
    both = [files / "other", files / "own"]
    several = evaluate(model=untrained, src=files / "src", ref=both, tokenize="none").scores[0]
    one = evaluate(model=untrained, src=files / "src", ref=both[:1], tokenize="none").scores[0]
    assert several.value == pytest.approx(100)
    assert one.value < 100
    assert "nrefs:2" in several.signature


@pytest.mark.parametrize(
    ("name", "line", "columns"),
    [("a.tsv", "{src}\t{ref}", ()), ("a.csv", '1,"{ref}",{src}', (2, 1)), ("a.jsonl", JSON_PAIR, ("a", "b"))],
)
def test_pairs_in_one_file_are_scored_as_those_of_two(untrained, files, name, line, columns):
    both = [(files / each).read_text().splitlines() for each in ("src", "own")]
    lines = [line.format(src=src, ref=ref) for src, ref in zip(*both, strict=True)]
    (files / name).write_text("\n".join(lines) + "\n")
    settings = {"model": untrained, "tokenize": "none", "by_length": True}
    found = evaluate(data=files / name, columns=columns, **settings)
    assert found.to_dict() == evaluate(src=files / "src", ref=files / "own", **settings).to_dict()
    with pytest.raises(UserError, match=r"a table .* not lines") as error:
        evaluate(src=files / name, ref=files / name, model=untrained)
    assert "--data FILE" in error.value.hint
    with pytest.raises(UserError, match=r"a table .* not lines"):
        compare([files / name], ref=files / "own")


def test_files_that_are_not_aligned_are_refused_before_anything_is_translated(untrained, files):
    with pytest.raises(DataError, match="8 lines, the reference 7"):
        evaluate(model=untrained / "absent", src=files / "src", ref=files / "short")


def test_scores_by_length_are_given_on_request(untrained, files):
    found = evaluate(model=untrained, src=files / "src", ref=files / "own", tokenize="none", by_length=True)
    assert [(each.words, each.sentences) for each in found.by_length] == [("0 to 5", 8)]
    assert found.by_length[0].bleu == pytest.approx(100)
    assert found.to_dict()["by_length"][0]["sentences"] == 8


def test_scores_by_length_are_for_translations_only(untrained):
    with pytest.raises(UserError, match="test data are scored without by_length"):
        evaluate(model=untrained, by_length=True)


def test_learned_metrics_score_after_the_others(untrained, files, metrics):
    found = evaluate(
        model=untrained,
        src=files / "src",
        ref=files / "other",
        metric=[metrics / "apart", metrics / "source-joined"],
        tokenize="none",
    )
    assert [score.name for score in found.scores][-3:] == ["TER", "apart", "source-joined"]
    assert "|metric:apart|sha256:" in found.scores[4].signature
    printed = found.to_dict()["scores"]
    assert len(printed[4]["segments"]) == 8
    assert printed[4]["value"] == pytest.approx(sum(printed[4]["segments"]) / 8)
    assert "segments" not in printed[0]


def test_a_metric_of_sources_needs_no_references(untrained, files, metrics):
    found = evaluate(model=untrained, src=files / "src", metric=metrics / "source-apart")
    assert [score.name for score in found.scores] == ["source-apart"]
    loaded = evaluate(model=untrained, src=files / "src", metric=regard.load(metrics / "source-apart"))
    assert loaded.scores == found.scores
    for settings in ({"by_length": True}, {"lowercase": True}, {"tokenize": "none"}):
        with pytest.raises(UserError, match="are for BLEU"):
            evaluate(model=untrained, src=files / "src", metric=metrics / "source-apart", **settings)


def test_what_a_metric_lacks_is_reported_before_anything_is_translated(untrained, files, metrics):
    absent = untrained / "absent"
    with pytest.raises(UserError, match="apart compares a translation with its reference"):
        evaluate(model=absent, src=files / "src", metric=metrics / "apart")
    references = [files / "own", files / "other"]
    with pytest.raises(UserError, match="one reference, not with 2"):
        evaluate(model=absent, src=files / "src", ref=references, metric=metrics / "apart")
    with pytest.raises(UserError, match="metric scores translations of src"):
        evaluate(model=absent, metric=metrics / "source-apart")


def test_translations_that_exist_already_have_the_scores_of_the_model_that_wrote_them(untrained, files):
    settings = {"src": files / "src", "ref": files / "other", "tokenize": "none", "by_length": True}
    translated = evaluate(model=untrained, **settings)
    given = evaluate(hypotheses=files / "own", **settings)
    assert (given.scores, given.by_length) == (translated.scores, translated.by_length)
    assert given.title == f"{files / 'own'}: 8 sentences"
    assert given.to_dict()["model"] is None
    without = evaluate(hypotheses=files / "own", ref=files / "other", tokenize="none")
    assert without.scores == given.scores


def test_translations_that_exist_already_are_scored_by_metrics_too(files, metrics):
    found = evaluate(hypotheses=files / "own", src=files / "src", metric=metrics / "source-apart")
    assert [score.name for score in found.scores] == ["source-apart"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"beam_size": 2}, "translations already"),
        ({"prefix": "a"}, "translations already"),
        ({"ref": ()}, "references, which are missing"),
        ({"by_length": True}, "by_length needs the sources"),
        ({"context": 3}, "context is for"),
    ],
)
def test_what_translations_that_exist_already_do_not_take_is_refused(files, settings, problem):
    with pytest.raises(UserError, match=problem):
        evaluate(**{"hypotheses": files / "own", "ref": files / "other", **settings})


def test_a_file_is_translated_with_the_controls_and_the_prefix_of_translate(untrained, files):
    lines = (files / "src").read_text().splitlines()
    for settings in ({"length_penalty": "power", "alpha": 3.0}, {"prefix": "7 7 7 "}, {"max_new_tokens": 2}):
        found = evaluate(model=untrained, src=files / "src", ref=files / "own", tokenize="none", **settings)
        assert found.translations == translate(lines, model=untrained, split="off", **settings), settings
    taken = {verb: {*inspect.signature(verb).parameters} for verb in (evaluate, translate)}
    assert (
        taken[translate] - {"text", "n_best", "batch_tokens", "engine", "split", "glossary", "keep"}
        < taken[evaluate]
    )


def test_bleu_has_its_precisions_and_its_brevity_penalty(untrained, files):
    found = evaluate(hypotheses=files / "own", ref=files / "other", tokenize="none").to_dict()["scores"][0]
    logs = [math.log(each / 100) for each in found["precisions"]]
    assert found["value"] == pytest.approx(100 * found["brevity_penalty"] * math.exp(sum(logs) / 4))
    lengths = found["reference_length"], found["hypothesis_length"]
    assert found["brevity_penalty"] == pytest.approx(min(1, math.exp(1 - lengths[0] / lengths[1])))
    [line] = evaluate(hypotheses=files / "own", ref=files / "other", tokenize="none").bleu_parts
    assert f"brevity penalty {found['brevity_penalty']:.3f}, {lengths[1]:,} tokens ({lengths[0]:,} in" in line
    assert "/".join(f"{each:.1f}" for each in found["precisions"]) in line
