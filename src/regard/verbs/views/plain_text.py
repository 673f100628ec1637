"""A look as plain lines for grep and cut: the kind of line, then its fields, separated by tabs."""

from collections.abc import Callable, Iterator
from typing import Any

GetResource = Callable[[str], Any]
MIN_WEIGHT = 0.1  # alignment weights below it have no line
MIN_SHARE = 0.5  # of the attention weight; if every pattern has less, the head is reported as NO_PATTERN
NO_PATTERN = "no single pattern"
PATTERNS = {  # statistic -> name; in a tie the first wins
    "aligning": "aligns",
    "previous": "attends to the previous token",
    "next": "attends to the next token",
    "same": "attends to itself",
    "duplicate": "attends to earlier copies of the token",
    "induction": "attends to the token after an earlier copy (induction)",
    "first": "attends to the first token",
    "end": "attends to the end token",
}


def text_lines(summary: dict[str, Any], get: GetResource) -> Iterator[str]:
    """The lines of a look.

    The first field is model, text, answer, label, tag, token, alignment, pharaoh, aligned, head, or
    "no weights" of an attention that has none.
    """
    model = summary["model"]
    yield _line("model", model["name"], model["kind"], f"{model['parameters']} parameters")
    yield _line("text", summary["text"])
    yield from _answer(summary["answer"] or {})
    if "steps" in summary["resources"]:
        for position, step in enumerate(get("steps")):
            numbers = f"{step['log_prob']:.4f}", f"{step['entropy']:.4f}"
            yield _line("token", position, step["token"], *numbers, f"rank {step['rank']}")
    if "alignment" in summary["resources"]:
        yield from _alignment(summary, get("alignment"))
    if "heads" in summary["resources"]:
        for head in get("heads"):
            pattern, share = head_pattern(head)
            yield _line("head", head["name"], head["head"], pattern, f"{share:.4f}")
    for each in summary["without_weights"]:
        yield _line("no weights", each["name"], each["why"])


def head_pattern(head: dict[str, Any]) -> tuple[str, float]:
    """The pattern with the largest share of a head's attention weight, and that share."""
    shares = {name: head[name] for name in PATTERNS if head.get(name) is not None}
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None:
        return NO_PATTERN, 0.0
    return (PATTERNS[best] if shares[best] >= MIN_SHARE else NO_PATTERN), shares[best]


def _answer(answer: dict[str, Any]) -> Iterator[str]:
    if "text" in answer:
        yield _line("answer", answer["text"], f"{answer['log_prob']:.4f}")
    if "value" in answer:
        yield _line("answer", f"{answer['value']:.6g}")
    for each in answer.get("labels", ()):
        yield _line("label", each["label"], f"{each['probability']:.4f}")
    for each in answer.get("tags", ()):
        yield _line("tag", each["token"], each["tag"], f"{each['probability']:.4f}")


def _alignment(summary: dict[str, Any], weights: Any) -> Iterator[str]:
    if found := summary["alignment"]:
        yield _line("alignment", found["name"], found["why"])
        yield _line("pharaoh", found["pharaoh"])
    source, written = (summary["sequences"][name]["tokens"] for name in ("source", "written"))
    for row, token in enumerate(written):
        for column in sorted(range(len(source)), key=lambda column: -weights[row][column]):
            if weights[row][column] >= MIN_WEIGHT:
                yield _line("aligned", row, token, column, source[column], f"{weights[row][column]:.4f}")


def _line(*fields: object) -> str:
    """Fields separated by tabs; control characters become spaces."""
    return "\t".join(
        "".join(character if character.isprintable() else " " for character in str(field).strip(" "))
        for field in fields
    )
