"""A look in plain lines, for grep and cut: what a line tells first, then its fields, between tabs."""

from collections.abc import Callable, Iterator
from typing import Any

Get = Callable[[str], Any]
SEEN = 0.1  # the least weight that is worth a line


def text_lines(summary: dict[str, Any], get: Get) -> Iterator[str]:
    """Lines that begin with model, text, answer, label, tag, token, aligned, head."""
    model = summary["model"]
    yield _line("model", model["name"], model["kind"], f"{model['parameters']} parameters")
    yield _line("text", summary["text"])
    yield from _answer(summary["answer"] or {})
    if "steps" in summary["resources"]:
        for place, step in enumerate(get("steps")):
            surprise = f"{step['log_prob']:.4f}", f"{step['entropy']:.4f}"
            yield _line("token", place, step["token"], *surprise, f"rank {step['rank']}")
    if "alignment" in summary["resources"]:
        yield from _alignment(summary, get("alignment"))
    if "heads" in summary["resources"]:
        for head in get("heads"):
            kind, share = head_pattern(head)
            yield _line("head", head["name"], head["head"], kind, f"{share:.4f}")


def head_pattern(head: dict[str, Any]) -> tuple[str, float]:
    """What a head does with most of its weight, and the share that it is of it."""
    shares = {name: head[name] for name in KINDS if head.get(name) is not None}
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None:
        return MIXED, 0.0
    return (KINDS[best] if shares[best] >= MAJORITY else MIXED), shares[best]


MAJORITY = 0.5  # of the weight, from which on a head is called by what it does
MIXED = "no single pattern"
KINDS = {  # of equal ones the first is told
    "aligning": "aligns",
    "previous": "looks at the token before",
    "next": "looks at the token after",
    "same": "looks at the token itself",
    "duplicate": "looks at the same token before",
    "induction": "looks at what followed the same token",
    "first": "looks at the first token",
    "end": "looks at the end",
}


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
            if weights[row][column] >= SEEN:
                yield _line("aligned", row, token, column, source[column], f"{weights[row][column]:.4f}")


def _line(*fields: object) -> str:
    """Fields between tabs, each in one line that moves no cursor."""
    return "\t".join("".join(_seen(sign) for sign in str(field).strip(" ")) for field in fields)


def _seen(sign: str) -> str:
    return sign if sign.isprintable() else " "
