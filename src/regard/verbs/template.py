"""The text of a new recipe: each key with a word about it."""

import json
import shlex
from collections.abc import Mapping

from regard.verbs.plan import Plan


def recipe_text(
    name: str, data: str, about: str, plan: Plan, tokenize: str = "auto", best_metric: str = "bleu"
) -> str:
    """A recipe for the corpus that `regard new` has split into the folder `data`, beside it."""
    values = dict(
        recipe=shlex.quote(f"{name}.toml"),
        name=json.dumps(name, ensure_ascii=False),
        description=json.dumps(about, ensure_ascii=False),
        **{
            f"{part}_{side}": json.dumps(f"{data}/{part}.{side}", ensure_ascii=False)
            for part in ("train", "valid")
            for side in ("source", "target")
        },
        vocab_size=plan.tier.vocab_size,
        joint=str(plan.joint).lower(),
        preset=plan.tier.preset,
        norm_position=plan.tier.norm_position,
        tied="all" if plan.joint else "target",
        batch_tokens=plan.tier.batch_tokens,
        max_steps=plan.max_steps,
        validate_every=plan.validate_every,
        learning_rate=plan.tier.learning_rate,
        warmup_steps=plan.warmup_steps,
        tokenize=tokenize,
        best_metric=best_metric,
    )
    return "".join(_line(line, values) for line in TEMPLATE.splitlines())


def _line(line: str, values: Mapping[str, object]) -> str:
    """A line with its values put in and its comment set in one column with the others."""
    setting, mark, comment = line.partition("  # ")
    text = setting.format(**values)
    return f"{text.rstrip():<25} # {comment}\n" if mark else f"{text}\n"


TEMPLATE = """\
# Try it:    regard train {recipe} --dry-run
# Train it:  regard train {recipe}    (again after an interruption: it goes on)
# Change a setting for once:  --set training.max_steps=2000

name = {name}  # the run goes to runs/NAME
description = {description}
card = ""  # words for the model card: licence and attribution of the data, limits

[data.train]  # two aligned files, line by line, plain or gzipped; paths begin at this recipe
source = {train_source}
target = {train_target}

[data.valid]  # held out: never trained on; chooses the best model
source = {valid_source}
target = {valid_target}

# A test set, that you never tune by, is scored once, at the end:
# [data.test]
# source = "test.source"
# target = "test.target"

[data.lines]  # what befalls a line that cannot be used: "skip" counts it, "error" stops
empty = "skip"
too_long = "skip"
max_characters = 5000

[tokenizer]
kind = "bpe"  # words, characters, bytes, bpe, bytebpe, wordpiece, unigram
vocab_size = {vocab_size}
joint = {joint}  # one vocabulary for both sides; false where they share few letters
lowercase = false

[model]
preset = "{preset}"  # tiny, small, medium, base, big; any key below changes it
tied = "{tied}"  # all: source and target embedding and output weight are one; target; none
norm_position = "{norm_position}"

[batches]
batch_tokens = {batch_tokens}  # padded positions of the longer side in a batch: less needs less memory
max_tokens = 256  # of one side; a longer pair is left out and counted

[training]
seed = 1
max_steps = {max_steps}  # updates
label_smoothing = 0.1
moving_average = 0.998  # the average of the weights is what is validated and kept
validate_every = {validate_every}
save_every = {validate_every}
patience = 0  # validations without a better score before stopping; 0 never stops
best_metric = "{best_metric}"

[training.schedule]
kind = "inverse_square_root"
learning_rate = {learning_rate}
warmup_steps = {warmup_steps}
cooldown = 0.3  # over the last 30 % of the run the rate falls to 0

[distributed]  # of several processes: --workers N on one machine, or torchrun on many
strategy = "ddp"  # each has the whole model; fsdp2: each has a part of every weight, for big models

[validation]
metrics = ["bleu", "chrf"]
sentences = 1000  # of the validation pairs; 0 is all
tokenize = "{tokenize}"  # sacreBLEU's, by the script; "none" for text that is tokenised already

[decoding]
beam_size = 5
length_penalty = "power"  # score / length^alpha; alpha 1 is the mean over tokens
alpha = 1.0
"""
