"""The text of a new recipe of a translation, with a comment on each key."""

import shlex
from collections.abc import Mapping

from regard.verbs.proposals.corpus_survey import Survey
from regard.verbs.proposals.fine_tuning import FineTuning
from regard.verbs.proposals.plan import Proposal
from regard.verbs.proposals.run_plan import CLIP_NORM
from regard.verbs.shared.recipe_text import commented, toml

USUAL_KIND = "encoder_decoder"  # of a model that a translation trains without `model.kind`


def head(name: str, about: str) -> str:
    """The head of the recipe `name`.toml for any task: commands, name, and its description `about`."""
    return _filled(
        HEAD_TEMPLATE, {"recipe": shlex.quote(f"{name}.toml"), "name": toml(name), "description": toml(about)}
    )


def recipe_text(
    name: str,
    about: str,
    data: str,
    proposal: Proposal | FineTuning,
    survey: Survey,
    expected: tuple[float, float] | None = None,
) -> str:
    """The recipe `name`.toml of a translation.

    Args:
        about: its description.
        data: the text of its sections [data.*].
        expected: the lowest and highest BLEU to expect; None if no similar runs are known.
    """
    values = dict[str, object](
        batch_tokens=proposal.settings.batch_tokens,
        max_tokens=proposal.max_tokens,
        max_steps=proposal.max_steps,
        epochs=f"{proposal.epochs:.0f}",
        clip_norm=CLIP_NORM,
        moving_average=proposal.moving_average,
        validate_every=proposal.validate_every,
        best_metric=toml(survey.best_metric),
        learning_rate=proposal.settings.learning_rate,
        warmup=proposal.settings.warmup,
        tokenize=toml(survey.tokenize),
        expected=expected and commented(f"expected_bleu = {toml(list(expected))}", EXPECTED_COMMENT),
    )
    training = TRAINING if expected else TRAINING.replace("{expected}\n", "")
    model, decoding = _trained(proposal) if isinstance(proposal, FineTuning) else _fresh(proposal)
    parts = head(name, about), data, "\n", _filled(LINES, {}), model, _filled(training, values), decoding
    return "".join(parts)


def _fresh(proposal: Proposal) -> tuple[str, str]:
    """The sections of tokeniser and model, and of decoding, for a new model."""
    values = {key: toml(value) for key, value in proposal.model.items()}
    values |= {"vocab_size": str(proposal.vocab_size), "joint": toml(proposal.joint)}
    return _filled(FRESH_MODEL, values), _filled(DECODING, {})


def _trained(proposal: FineTuning) -> tuple[str, str]:
    """The same sections for a trained model."""
    kind = "" if proposal.kind == USUAL_KIND else f"kind = {toml(proposal.kind)}\n"
    extension = _filled(EXTENSION, {"size": proposal.new_tokens}) if proposal.new_tokens else ""
    model = f"{extension}{_filled(TRAINED_MODEL, {'init': toml(proposal.init)})}{kind}\n"
    lines = [f"{key} = {toml(value)}\n" for key, value in proposal.decoding.items()]
    return model, "".join([commented("[decoding]", "as the trained model decodes"), "\n", *lines])


def _filled(template: str, values: Mapping[str, object]) -> str:
    """The lines of a template with `values` for the names in braces."""
    return "".join(_line(line, values) for line in template.splitlines())


def _line(line: str, values: Mapping[str, object]) -> str:
    """A line with its values filled in and its comment in the column of all comments."""
    setting, separator, comment = line.partition("  # ")
    text = setting.format(**values)
    return f"{commented(text.rstrip(), comment.format(**values)) if separator else text}\n"


EXPECTED_COMMENT = "from similar corpora and runs: docs/recipes-by-size.md"

HEAD_TEMPLATE = """\
# Try it:    regard train {recipe} --dry-run
# Train it:  regard train {recipe}    (the same command resumes it after an interruption)
# Try another setting:  regard train {recipe} --set training.max_steps=2000 --out runs/try

name = {name}  # the run goes to runs/NAME
description = {description}
card = ""  # text for the model card: licence and attribution of the data, limits

"""

LINES = """\
[data.lines]  # lines that cannot be used: "skip" leaves them out and counts them, "error" stops
empty = "skip"
too_long = "skip"
max_characters = 5000

"""

FRESH_MODEL = """\
[tokenizer]
kind = "bpe"  # words, characters, bytes, bpe, bytebpe, wordpiece, unigram
vocab_size = {vocab_size}
joint = {joint}  # one vocabulary for both sides; false if they share few letters
lowercase = false

[model]
d_model = {d_model}  # width of the hidden states
num_heads = {num_heads}  # each d_model / num_heads wide
d_ff = {d_ff}  # inner width of the gated feed-forward layers
num_encoder_layers = {num_encoder_layers}
num_decoder_layers = {num_decoder_layers}
norm_position = {norm_position}  # pre allows higher learning rates than the paper's post
norm = {norm}  # layer, rms
activation = {activation}  # relu, gelu, silu, swiglu
positions = {positions}  # sinusoidal, learned, rotary, alibi, t5, none
tied = {tied}  # all: source embedding, target embedding and output layer share weights; target; none
dropout = {dropout}  # higher for more epochs

"""

EXTENSION = """\
[tokenizer.extension]  # new tokens for letters that the model's tokeniser lacks
size = {size}  # at most

"""

TRAINED_MODEL = """\
[model]  # sizes and tokenisers are those of the trained model
init = {init}  # the trained model that the run begins with
"""

TRAINING = """\
[batches]
batch_tokens = {batch_tokens}  # padded positions of the longer side in a batch; fewer need less memory
max_tokens = {max_tokens}  # of a side; longer pairs are left out and counted

[training]
seed = 1
max_steps = {max_steps}  # updates; {epochs} epochs
clip_norm = {clip_norm}  # maximum norm of the gradient
label_smoothing = 0.1
moving_average = {moving_average}  # validation and the saved model use the average
validate_every = {validate_every}
save_every = {validate_every}
patience = 0  # validations without a better score before stopping; 0 never stops
best_metric = {best_metric}  # the validation score that selects the best model: loss, bleu, chrf++

[training.schedule]
kind = "linear"  # after the warm-up the learning rate falls linearly to 0
learning_rate = {learning_rate}  # at the end of the warm-up
warmup = {warmup}  # share of the run

[distributed]  # several processes: --workers N on one machine, or torchrun on many
strategy = "ddp"  # each has the whole model; fsdp2 shards the weights, for big models

[validation]
metrics = ["bleu", "chrf++"]
sentences = 500  # validation pairs to use; 0 is all
tokenize = {tokenize}  # sacreBLEU's tokeniser for the script; "none" for text that is tokenised already
{expected}

"""

DECODING = """\
[decoding]
beam_size = 5
length_penalty = "power"  # score / length^alpha; alpha 1 is the mean over tokens
alpha = 1.0
max_length_ratio = 2.0  # a translation has at most twice the tokens of its source
max_length_offset = 20  # and 20 more
"""
