"""A task of one's own: which digit of a sequence is the largest?

    python examples/task.py

`[task] kind = "largest_digit"` names it. `regard.train` and `regard.evaluate` in this process treat it as any
other task; so do the commands `regard train` and `regard evaluate` if an installed package registers it
(docs/extending.md).
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F

import regard
from regard.data import IGNORED, Examples, TensorExamples, TokenizerSettings, train_tokenizer
from regard.training import LabelCrossEntropy, Objective
from regard.verbs.tasks import (
    HeldOutData,
    Recipe,
    RecipeFile,
    Say,
    Score,
    ScoreReport,
    Task,
    model_config,
    register_task,
)
from regard.weights import LoadedModel

TOKENIZER = train_tokenizer(["0123456789>"], "characters", TokenizerSettings())
GENERATION = {"max_new_tokens": 1, "temperature": 0.0, "begin": False}


@dataclass(frozen=True, kw_only=True)
class LargestDigitSettings:
    """`[task]`."""

    kind: Literal["largest_digit"]


@dataclass(frozen=True, kw_only=True)
class DigitSettings:
    """`[data]`: how many sequences of how many digits are generated."""

    size: int = 4000
    length: int = 5


@dataclass(frozen=True, kw_only=True)
class LargestDigitRecipe(Recipe):
    """The sections of a recipe: those of all tasks, and these."""

    model_kind: ClassVar[str] = "decoder_only"
    task: LargestDigitSettings
    data: DigitSettings = field(default_factory=DigitSettings)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("accuracy",)


def examples(data: DigitSettings, seed: int) -> TensorExamples:
    """Texts such as "31415>"; only the last position has a label, the largest digit."""
    rows = torch.randint(10, (data.size, data.length), generator=torch.Generator().manual_seed(seed))
    texts = ["".join(map(str, row)) + ">" for row in rows.tolist()]
    labels = torch.full((data.size, data.length + 1), IGNORED)
    labels[:, -1] = torch.tensor(TOKENIZER.encode_batch(list(map(str, rows.amax(dim=1).tolist()))))[:, 0]
    return TensorExamples(torch.tensor(TOKENIZER.encode_batch(texts)), labels)


@torch.no_grad()
def scores(model: Any, data: DigitSettings, seed: int) -> dict[str, float]:
    """The mean loss in nats, and the accuracy in percent."""
    held_out = examples(data, seed)
    logits, labels = model(held_out.inputs.to(model.device))[:, -1].float().cpu(), held_out.labels[:, -1]
    accuracy = (logits.argmax(dim=1) == labels).float().mean()
    return {"loss": float(F.cross_entropy(logits, labels)), "accuracy": 100 * float(accuracy)}


def test_scores(model: Any, data: DigitSettings) -> list[Score]:
    accuracy = scores(model, data, seed=3)["accuracy"]
    return [Score(name="accuracy", value=accuracy, low=None, high=None, signature=f"sequences:{data.size}")]


class LargestDigit(Task):
    use = 'regard generate --model . "31415>"'

    def __init__(self, recipe: LargestDigitRecipe) -> None:
        self.recipe = recipe
        self.config = model_config(recipe, vocab_size=TOKENIZER.vocab_size)
        self.files = {
            "tokenizer.json": TOKENIZER.to_bytes(),
            "generation.json": json.dumps(GENERATION).encode(),
        }

    def objective(self) -> Objective:
        return LabelCrossEntropy()

    def examples(self) -> Examples:
        return examples(self.recipe.data, seed=1)

    def validate(self, model: Any) -> dict[str, float]:
        return scores(model, self.recipe.data, seed=2)

    def test(self, model: Any) -> list[Score]:
        return test_scores(model, self.recipe.data)


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Task:
    """Reads the data of a recipe, caches costly results in `folder`; here there is nothing to read."""
    assert isinstance(source.recipe, LargestDigitRecipe)
    return LargestDigit(source.recipe)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """The test data of a trained model, for `regard evaluate`."""
    recipe = source.recipe
    assert isinstance(recipe, LargestDigitRecipe)
    return HeldOutData(
        size=f"{recipe.data.size:,} sequences",
        evaluate=lambda model: ScoreReport(scores=test_scores(model, recipe.data)),
    )


register_task("largest_digit", recipe=LargestDigitRecipe, prepare=prepare, open_test_data=open_test_data)

RECIPE = """
name = "largest-digit"
task = { kind = "largest_digit" }
data = { length = 5 }
model = { d_model = 32, num_heads = 2, num_layers = 1, d_ff = 64, dropout = 0.0 }
batches = { batch_tokens = 64 }      # a sequence counts as one

[training]
max_steps = 300
validate_every = 100
save_every = 100
best_metric = "accuracy"
schedule = { kind = "cosine", learning_rate = 0.01, warmup_steps = 30 }
"""

if __name__ == "__main__":
    Path("largest-digit.toml").write_text(RECIPE, encoding="utf-8")
    run = regard.train("largest-digit.toml", quiet=True)
    [accuracy] = regard.evaluate(model=run.model).scores
    print(f"{accuracy.name} {accuracy.value:.1f} %")
    print(regard.generate("31415>", model=run.model))
