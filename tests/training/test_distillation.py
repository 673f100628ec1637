"""Distillation: the loss is that of a few plain lines, for each kind of task; the teacher stays as it is."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.data.batch import IGNORED, collate
from regard.data.process_share import EmptyShare
from regard.data.texts import LabelledTextBatch
from regard.data.token_stream import TextBatch
from regard.distributed.replicated import ReplicatedModel
from regard.errors import RecipeError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.training import register_loss
from regard.training.distillation import DistillationSettings, distilled
from regard.training.gradients import Gradients
from regard.training.losses import LOSSES, chosen_loss
from regard.training.objective import (
    CrossEntropy,
    LabelCrossEntropy,
    Loss,
    NextToken,
    SquaredError,
    ignored_label,
)
from regard.training.r_drop import RDrop
from regard.training.settings import TrainingSettings
from regard.training.share_objective import ShareObjective

PAIRS = [([5, 6, 7, 3], [2, 8, 9, 3]), ([4, 3], [2, 10, 3])]
SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 16}
IDS = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])
LENGTHS = torch.tensor([4, 3])
PLACES = torch.tensor([[IGNORED, 5, 6, IGNORED], [IGNORED, 8, IGNORED, IGNORED]])


def encoder_decoder(seed, **sizes):
    sizes = {**SIZES, **sizes, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_model(EncoderDecoderConfig(src_vocab_size=12, tgt_vocab_size=12, **sizes), seed=seed)


def encoder(seed, head, **sizes):
    config = EncoderOnlyConfig(vocab_size=12, head=head, num_layers=1, **{**SIZES, **sizes})
    return build_model(config, seed=seed)


def language_model(seed, **sizes):
    return build_model(DecoderOnlyConfig(vocab_size=12, num_layers=1, **{**SIZES, **sizes}), seed=seed)


def labelled(labels):
    places = PLACES != IGNORED if labels is PLACES else None
    labels = labels if places is None else PLACES[places]
    return LabelledTextBatch(ids=IDS, lengths=LENGTHS, labels=labels, places=places, lines=torch.arange(2))


CASES = {
    "translation": (
        encoder_decoder,
        collate(*zip(*PAIRS, strict=True), [1, 2], pad_id=0),
        CrossEntropy,
        lambda model, batch: model(batch.src_ids, batch.src_lengths, batch.tgt_input)[batch.labels != 0],
    ),
    "language model": (
        language_model,
        TextBatch(ids=IDS, labels=PLACES, documents=None, lines=torch.arange(2)),
        NextToken,
        lambda model, batch: model(batch.ids)[batch.labels != IGNORED],
    ),
    "masked language model": (
        lambda seed, **sizes: encoder(seed, "masked_language_model", **sizes),
        labelled(PLACES),
        LabelCrossEntropy,
        lambda model, batch: model(batch.ids, batch.lengths)[PLACES != IGNORED],
    ),
    "classification": (
        lambda seed, **sizes: encoder(seed, "classification", num_labels=3, **sizes),
        labelled(torch.tensor([0, 2])),
        LabelCrossEntropy,
        lambda model, batch: model(batch.ids, batch.lengths),
    ),
    "tagging": (
        lambda seed, **sizes: encoder(seed, "tokens", num_labels=9, **sizes),
        labelled(PLACES),
        LabelCrossEntropy,
        lambda model, batch: model(batch.ids, batch.lengths)[PLACES != IGNORED],
    ),
}


def labels_of(batch, case):
    ignored = 0 if case == "translation" else IGNORED
    return batch.labels[batch.labels != ignored]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("weight", "temperature", "smoothing"), [(0.5, 1.0, 0.0), (0.3, 2.0, 0.1), (1.0, 4.0, 0.1)]
)
def test_the_loss_is_that_of_plain_lines(case, weight, temperature, smoothing):
    make, batch, base, logits_of = CASES[case]
    student, teacher = make(1).eval(), make(2, d_ff=24)
    settings = DistillationSettings(teacher="DIR", weight=weight, temperature=temperature)
    loss = distilled(base(smoothing=smoothing), teacher, settings)(student, batch)

    own, wanted, labels = logits_of(student, batch), logits_of(teacher, batch), labels_of(batch, case)
    hard = F.cross_entropy(own, labels, label_smoothing=smoothing, reduction="sum")
    p, q = (wanted / temperature).softmax(-1), (own / temperature).softmax(-1)
    soft = (p * (p.log() - q.log())).sum()
    torch.testing.assert_close(loss.total, (1 - weight) * hard + weight * temperature**2 * soft)
    torch.testing.assert_close(loss.nll, F.cross_entropy(own, labels, reduction="sum"))
    assert loss.num_targets == len(labels)
    assert not loss.nll.requires_grad


def test_only_the_student_gets_gradients_and_the_teacher_has_no_dropout():
    student, teacher = encoder_decoder(1), encoder_decoder(2, dropout=0.5).train()
    batch, settings = CASES["translation"][1], DistillationSettings(teacher="DIR", weight=1.0)
    objective = distilled(CrossEntropy(), teacher, settings)
    before = torch.get_rng_state()
    student.eval()
    totals = [objective(student, batch).total for _ in range(2)]
    assert torch.equal(totals[0], totals[1])
    assert torch.equal(torch.get_rng_state(), before), "no random numbers"
    totals[0].backward()
    assert any(parameter.grad is not None for parameter in student.parameters())
    assert all(each.grad is None and not each.requires_grad for each in teacher.parameters())


def test_a_student_that_is_its_teacher_has_only_the_loss_of_the_labels():
    student, batch = encoder_decoder(1).eval(), CASES["translation"][1]
    settings = DistillationSettings(teacher="DIR", weight=0.25, temperature=3.0)
    loss = distilled(CrossEntropy(), encoder_decoder(1), settings)(student, batch)
    torch.testing.assert_close(loss.total, 0.75 * loss.nll)


def test_a_class_that_the_teacher_excludes_gives_no_nan():
    """A teacher may exclude a class altogether."""
    own, wanted = torch.zeros(2, 3, requires_grad=True), torch.tensor([[0.0, 1.0, -1e4]] * 2)

    class OfThese:
        def logits(self, model, batch):
            return (wanted if model is teacher else own), torch.tensor([0, 1])

        def of_logits(self, logits, labels):
            return LabelCrossEntropy().of_logits(logits, labels)

        def __call__(self, model, batch): ...

    teacher = torch.nn.Identity()
    loss = distilled(OfThese(), teacher, DistillationSettings(teacher="DIR"))(None, None)
    loss.total.backward()
    assert own.grad.isfinite().all()


def test_with_a_weight_of_1_the_loss_of_the_labels_does_not_matter():
    class Infinite:
        def logits(self, model, batch):
            return torch.tensor([[0.0, 1.0]]), torch.tensor([0])

        def of_logits(self, logits, labels):
            return Loss(total=torch.tensor(torch.inf), nll=torch.tensor(2.0), num_targets=1)

        def __call__(self, model, batch): ...

    settings = DistillationSettings(teacher="DIR", weight=1.0)
    assert distilled(Infinite(), torch.nn.Identity(), settings)(None, None).total == 0.0


def test_a_registered_loss_and_class_weights_are_those_of_the_labels():
    @register_loss("half")
    def half(logits, labels):
        return F.cross_entropy(logits, labels, reduction="none") / 2

    try:
        make, batch, _, logits_of = CASES["classification"]
        student, teacher = make(1).eval(), make(2)
        settings = DistillationSettings(teacher="DIR", weight=0.5)
        own = logits_of(student, batch)
        soft = F.kl_div(own.log_softmax(-1), logits_of(teacher.eval(), batch).softmax(-1), reduction="sum")
        weighted = LabelCrossEntropy(weights=(1.0, 2.0, 3.0))
        for base in (chosen_loss("half", LabelCrossEntropy()), weighted):
            expected = 0.5 * base(student, batch).total + 0.5 * soft
            torch.testing.assert_close(distilled(base, teacher, settings)(student, batch).total, expected)
    finally:
        del LOSSES.added["half"]


def test_the_gradient_does_not_depend_on_how_a_batch_is_divided():
    """Over accumulated batches, and over processes, of which one may have an empty share."""
    teacher, batch = encoder_decoder(2), CASES["translation"][1]
    objective = distilled(CrossEntropy(smoothing=0.1), teacher, DistillationSettings(teacher="DIR"))
    found = []
    for batches in ([batch], [*batch.halves()], [*batch.halves(), EmptyShare(batch)]):
        student = encoder_decoder(1).eval()
        gradients = Gradients(
            ReplicatedModel(student), ShareObjective(objective), torch.device("cpu"), "float32"
        )
        numbers = gradients(batches, student.zero_grad)
        found.append((numbers[:2], [parameter.grad for parameter in student.parameters()]))
    for numbers, tensors in found[1:]:
        assert numbers == pytest.approx(found[0][0])
        torch.testing.assert_close(tensors, found[0][1], rtol=1e-4, atol=1e-6)


def test_ignored_labels_are_still_found_before_a_batch_is_on_a_gpu():
    settings = DistillationSettings(teacher="DIR")
    assert ignored_label(distilled(CrossEntropy(pad_id=7), encoder_decoder(1), settings)) == 7
    assert ignored_label(distilled(NextToken(), language_model(1), settings)) == IGNORED


@pytest.mark.parametrize("base", [SquaredError(), RDrop(base=CrossEntropy())], ids=str)
def test_what_does_not_predict_classes_is_refused(base):
    with pytest.raises(RecipeError, match=r"training\.distillation: .* is not a function of logits"):
        distilled(base, encoder_decoder(1), DistillationSettings(teacher="DIR"))


@pytest.mark.parametrize(
    "choice", [{"weight": 0.0}, {"weight": 1.5}, {"temperature": 0.0}, {"temperature": -1.0}]
)
def test_settings_that_cannot_work_are_refused(choice):
    with pytest.raises(RecipeError, match=rf"{next(iter(choice))} = "):
        DistillationSettings(teacher="DIR", **choice)


def test_r_drop_and_a_teacher_are_not_both_possible():
    with pytest.raises(RecipeError, match="are both set"):
        TrainingSettings(r_drop=5.0, distillation=DistillationSettings(teacher="DIR"))
    assert math.isclose(DistillationSettings(teacher="DIR").weight, 0.5)
