"""A learned metric scores each segment by itself, with what it reads, and says what it lacks."""

import pytest
import torch

import regard
from regard.errors import FolderError, UserError
from regard.verbs.shared import learned_metric
from regard.verbs.shared.learned_metric import (
    LearnedMetric,
    Segment,
    SourcesAndReferences,
    learned_comparison,
    learned_score,
    open_metrics,
)

KINDS = ("apart", "source-apart", "source-joined", "joined")
SEGMENTS = [
    Segment(
        translation=" ".join(str((i * k) % 10) for k in range(1, 2 + i % 5)),
        source=" ".join(str((i + k) % 10) for k in range(1 + i % 7)),
        reference=" ".join(str((i - k) % 10) for k in range(1 + i % 3)),
    )
    for i in range(24)
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_of_a_segment_does_not_depend_on_the_others(metrics, kind, monkeypatch):
    metric = LearnedMetric(metrics / kind)
    together = metric.scores(SEGMENTS)
    assert max(together) - min(together) > 1e-3
    alone = [metric.scores([segment])[0] for segment in SEGMENTS]
    assert together == pytest.approx(alone, abs=2e-6)
    assert metric.scores(SEGMENTS[::-1]) == pytest.approx(together[::-1], abs=2e-6)
    monkeypatch.setattr(learned_metric, "BATCH_TOKENS", 40)
    assert metric.scores(SEGMENTS) == pytest.approx(together, abs=2e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_scores_are_those_of_the_model_on_the_ids_of_each_segment(metrics, kind):
    """Row by row, without batches, without texts that are shared."""
    metric = LearnedMetric(metrics / kind)
    encode, begin, end = metric.tokenizer.encode, metric.tokenizer.bos_id, metric.tokenizer.eos_id
    for segment, score in zip(SEGMENTS[:6], metric.scores(SEGMENTS[:6]), strict=True):
        translation, source, reference = map(encode, (segment.translation, segment.source, segment.reference))
        rows = {
            "apart": [translation, source, reference],
            "source-apart": [translation, source],
            "source-joined": [[*translation, end, end, *source]],
            "joined": [
                [*translation, end, end, *source],
                [*translation, end, end, *reference],
                [*translation, end, end, *source, end, end, *reference],
            ],
        }[kind]
        vectors = [
            metric.model.vectors(torch.tensor([[begin, *row, end]]), torch.tensor([len(row) + 2]))
            for row in rows
        ]
        assert float(metric.model.estimate(torch.stack(vectors, dim=1))) == pytest.approx(score, abs=2e-6)


@torch.no_grad()
def test_a_text_that_occurs_twice_is_encoded_once(metrics, monkeypatch):
    metric = LearnedMetric(metrics / "apart")
    encoded, vectors = [], metric.model.vectors
    monkeypatch.setattr(
        metric.model, "vectors", lambda ids, lengths: (encoded.append(len(ids)), vectors(ids, lengths))[1]
    )
    same = Segment(translation="1 2", source="3", reference="1 2")
    assert len(set(metric.scores([same, same, Segment(translation="4", source="3", reference="1 2")]))) == 2
    assert sum(encoded) == 3  # 1 2, 3, 4


@pytest.mark.parametrize("kind", KINDS)
def test_of_longer_texts_the_beginning_counts_and_their_number_is_reported(metrics, kind, capsys):
    metric = LearnedMetric(metrics / kind)
    long = " ".join("123456789" * 4)
    segments = [Segment(translation=long, source="1", reference="2"), SEGMENTS[0]]
    more = [Segment(translation=f"{long} 5 5 5", source="1", reference="2"), SEGMENTS[0]]
    assert metric.scores(segments) == metric.scores(more)
    assert "1 of 2 segments are longer than" in capsys.readouterr().err
    metric.scores(SEGMENTS)
    assert "longer" not in capsys.readouterr().err


def test_a_metric_says_what_it_lacks(metrics):
    lines = ["1 2"]
    neither = SourcesAndReferences()
    sources, references = SourcesAndReferences(sources=lines), SourcesAndReferences(references=[lines])
    both, two = (
        SourcesAndReferences(sources=lines, references=[lines]),
        SourcesAndReferences(sources=lines, references=[lines] * 2),
    )
    wants = {  # kind -> what it can score with
        "apart": [both],
        "source-apart": [sources, both, two],
        "source-joined": [sources, both, two],
        "joined": [sources, references, both],
    }
    for kind, enough in wants.items():
        metric = LearnedMetric(metrics / kind)
        for others in (neither, sources, references, both, two):
            if others in enough:
                metric.require(others)
                learned_score(metric, ["1"], others)
            else:
                with pytest.raises(UserError, match=kind) as caught:
                    metric.require(others)
                assert caught.value.hint


def test_the_signature_names_what_was_read_and_the_files_of_the_metric(metrics):
    joined, apart = LearnedMetric(metrics / "joined"), LearnedMetric(metrics / "apart")
    both = SourcesAndReferences(sources=["1"], references=[["1"]])
    assert joined.facts(both).startswith("reads:source+reference|metric:joined|sha256:")
    assert joined.facts(SourcesAndReferences(sources=["1"])).startswith("reads:source|metric:joined|sha256:")
    assert joined.facts(both).split("sha256:")[1] != apart.facts(both).split("sha256:")[1]
    assert LearnedMetric(regard.load(metrics / "apart")).facts(both) == apart.facts(both)


def test_systems_are_compared_by_the_scores_that_each_has_alone(metrics):
    metric = LearnedMetric(metrics / "apart")
    others = SourcesAndReferences(
        sources=[each.source or "" for each in SEGMENTS],
        references=[[each.reference or "" for each in SEGMENTS]],
    )
    systems = {
        "first": [each.translation for each in SEGMENTS],
        "second": [each.source or "" for each in SEGMENTS],
        "third": ["7"] * len(SEGMENTS),
    }
    found = learned_comparison(metric, systems, others)
    for system in found.systems:
        score = learned_score(metric, systems[system.system], others)
        assert found.segments[system.system] == pytest.approx(score.segments, abs=2e-6)
        assert system.value == pytest.approx(score.value, abs=2e-6)


def test_what_is_no_metric_is_refused(metrics, untrained, tmp_path):
    with pytest.raises(FolderError, match="not a model that scores translations"):
        LearnedMetric(untrained)
    with pytest.raises(FolderError, match="two metrics have the name apart"):
        open_metrics([metrics / "apart"] * 2, SourcesAndReferences(sources=["1"], references=[["1"]]))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.ckpt").touch()
    (tmp_path / "hparams.yaml").touch()
    with pytest.raises(FolderError, match="is a checkpoint of COMET") as caught:
        LearnedMetric(tmp_path)
    assert "--encoder DIR" in caught.value.hint
