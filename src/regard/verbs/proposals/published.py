"""Adapting a published recipe to other data: its text with changed values and other data sections.

The text is read from the published recipe, so the two cannot diverge.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.verbs.recipes import recipe_folder
from regard.verbs.shared.recipe_text import commented, toml

PART_COMMENTS = {
    "train": "",
    "valid": "never trained on; selects the best model",
    "test": "scored once, at the end",
}
RELATIVE_PATHS = "paths are relative to this recipe"


@dataclass(frozen=True, kw_only=True)
class RecipeChange:
    """A new value of a key, None to remove it, and its comment; without one the published comment stays."""

    value: Any
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedRecipe:
    """A published recipe, which is used unchanged for corpora of `low` to `high` bytes of text.

    For other corpora the number of updates and the vocabulary scale with the square root of the amount of
    text, and batches grow with its fourth root, within bounds.
    """

    recipe: str
    low: int
    high: int
    updates: tuple[int, int] = (200, 20_000)
    vocabulary: tuple[int, int] = (500, 16_000)
    largest_batch: int = 8192

    def text(self) -> str:
        """The text of the recipe."""
        return (recipe_folder() / f"{self.recipe}.toml").read_text("utf-8")

    def table(self) -> dict[str, Any]:
        """The settings of the recipe."""
        return tomllib.loads(self.text())

    def scaled(self, amount: int) -> dict[str, RecipeChange]:
        """The changes for `amount` bytes of training text; `training.max_steps` is always among them."""
        root = math.sqrt(amount / min(max(amount, self.low), self.high))
        table = self.table()
        training, schedule = table["training"], table["training"]["schedule"]
        if root == 1:
            return {"training.max_steps": RecipeChange(value=training["max_steps"], comment="updates")}
        steps = _within(training["max_steps"] * root, self.updates)
        share = steps / training["max_steps"]
        changes = {
            "training.max_steps": RecipeChange(value=steps, comment="updates"),
            "training.schedule.warmup_steps": RecipeChange(
                value=max(10, min(schedule["warmup_steps"], steps // 10)),
                comment="updates; the rate changes with each",
            ),
        }
        for name in ("validate_every", "save_every"):
            changes[f"training.{name}"] = RecipeChange(value=_rounded(max(10.0, training[name] * share)))
        if "vocab_size" in table["tokenizer"]:
            size = _within(table["tokenizer"]["vocab_size"] * root, self.vocabulary)
            changes["tokenizer.vocab_size"] = RecipeChange(value=size)
        if root > 1:
            batch = min(table["batches"]["batch_tokens"] * math.sqrt(root), self.largest_batch)
            changes["batches.batch_tokens"] = RecipeChange(
                value=_rounded(float(batch)), comment="padded positions in a batch"
            )
        return changes


def _within(value: float, bounds: tuple[int, int]) -> int:
    return _rounded(float(min(max(value, bounds[0]), bounds[1])))


def _rounded(value: float) -> int:
    """`value` rounded to two digits."""
    return int(float(f"{value:.1e}"))


@dataclass(frozen=True, kw_only=True)
class RecipeSection:
    """A section of a recipe; `settings` maps each key to its value and its comment."""

    title: str
    about: str = ""
    settings: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [commented(f"[{self.title}]", self.about)] if self.about else [f"[{self.title}]"]
        lines += [
            commented(f"{key} = {toml(value)}", comment) for key, (value, comment) in self.settings.items()
        ]
        return "\n".join(lines) + "\n"


def adapted(published: str, head: str, data: str, changes: Mapping[str, RecipeChange]) -> str:
    """The text of a published recipe with another head, other data sections, and the changes applied.

    Lines before the first section and the [data] sections of the published recipe are replaced. A changed
    key that the recipe does not have is added to its section.
    """
    output, section, written, rest = [head], "", False, dict(changes)
    lines = re.sub(r'"""[\s\S]*?"""', '""', published).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("["))
    for line in lines[first:]:
        if opened := re.match(r"\[([\w.]+)\]", line):
            _add(output, section, rest)
            section = opened[1]
            if section.split(".")[0] == "data":
                if not written:
                    output.append(f"{data}\n")
                written = True
                continue
        if section.split(".")[0] != "data":
            output.append(_changed(line, section, rest))
    _add(output, section, rest)
    assert not rest, rest
    return "".join(output).rstrip("\n") + "\n"


def with_changes(text: str, changes: Mapping[str, RecipeChange]) -> str:
    """The text of a recipe with the changes applied, as in `adapted`; the value None removes a key."""
    output, section, rest = list[str](), "", dict(changes)
    for line in text.splitlines():
        if opened := re.match(r"\[([\w.]+)\]", line):
            _add(output, section, rest)
            section = opened[1]
        output.append(_changed(line, section, rest))
    _add(output, section, rest)
    assert not rest, rest
    return "".join(output)


def _changed(line: str, section: str, changes: dict[str, RecipeChange]) -> str:
    """A line with its change applied, which is removed from `changes`."""
    key = re.match(r"(\w+) = ", line)
    change = changes.pop(f"{section}.{key[1]}", None) if key else None
    if key is None or change is None:
        return f"{line}\n"
    if change.value is None:
        return ""
    comment = change.comment or line.partition("  # ")[2]
    return commented(f"{key[1]} = {toml(change.value)}", comment) + "\n"


def _add(output: list[str], section: str, changes: dict[str, RecipeChange]) -> None:
    """Add the remaining changes of a section at its end, before the empty line after it."""
    own = [(name, changes.pop(name)) for name in list(changes) if name.rpartition(".")[0] == section]
    added = [
        commented(f"{name.rpartition('.')[2]} = {toml(change.value)}", change.comment) + "\n"
        for name, change in own
        if change.value is not None
    ]
    end = len(output) - (output[-1:] == ["\n"])
    output[end:end] = added
