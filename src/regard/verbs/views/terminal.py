"""A look in the terminal: coloured cells and tables."""

from typing import Any

from regard import console
from regard.verbs.views.look import Look
from regard.verbs.views.plain_text import head_pattern

MAX_HEADS = 12  # shown: those with the clearest pattern


def print_look(look: Look) -> None:
    """Print a look to stdout, which is a terminal."""
    summary = look.summary
    console.say(f"{summary['model']['name']}  {summary['model']['parameters']:,} parameters")
    _show_answer(summary)
    if "alignment" in summary["resources"]:
        _show_alignment(look)
    elif summary["attentions"]:
        _show_attention(look, summary["attentions"][-1]["name"])
    for each in summary["without_weights"]:
        console.say(f"\n{each['name']} has no weights to show: {each['why']}")
    if "steps" in summary["resources"]:
        _show_steps(look)
    if "heads" in summary["resources"]:
        _show_heads(look)


def _show_answer(summary: dict[str, Any]) -> None:
    answer = summary["answer"] or {}
    console.say(f"\n{summary['text']}")
    if "text" in answer:
        console.say(f"{answer['text']}   (log-probability {answer['log_prob']:.3f})")
    if "value" in answer:
        console.say(f"{answer['value']:.6g}")
    if answer.get("labels"):
        rows = [[each["label"], f"{each['probability']:.4f}"] for each in answer["labels"]]
        console.table("", ["class", "probability"], rows)
    if answer.get("tags"):
        rows = [[each["token"], each["tag"], f"{each['probability']:.4f}"] for each in answer["tags"]]
        console.table("", ["token", "tag", "probability"], rows)


def _show_alignment(look: Look) -> None:
    summary = look.summary
    found = summary["alignment"]
    console.say("\nSource tokens attended to at each written token")
    if found:
        console.say(f"by {found['name']}: {found['why']}")
    source, written = (summary["sequences"][name]["tokens"] for name in ("source", "written"))
    weights: Any = look.get("alignment")
    console.alignment(source, written, weights.tolist())
    rows = []
    for row, token in enumerate(written):
        best = int(weights[row].argmax())
        rows.append([token, source[best], f"{weights[row][best]:.2f}"])
    console.table("", ["written", "attends most to", "weight"], rows)


def _show_attention(look: Look, name: str) -> None:
    [site] = [site for site in look.summary["attentions"] if site["name"] == name]
    rows, columns = (look.summary["sequences"][site[side]]["tokens"] for side in ("rows", "columns"))
    console.say(f"\n{name}, the mean of its heads: rows attend to columns")
    weights: Any = look.get(f"attention/{name}")
    console.alignment(columns, rows, weights.astype("float32").mean(axis=0).tolist())


def _show_steps(look: Look) -> None:
    steps: Any = look.get("steps")
    rows = []
    for step in steps:
        others = [each["token"].strip() for each in step["candidates"] if each["id"] != step["id"]][:3]
        rows.append(
            [
                step["token"],
                f"{step['log_prob']:.3f}",
                f"{step['entropy']:.2f}",
                step["rank"],
                " ".join(others),
            ]
        )
    console.table("", ["token", "log-probability", "entropy", "rank", "or"], rows)


def _show_heads(look: Look) -> None:
    heads: Any = look.get("heads")
    ranked = sorted(((*head_pattern(head), head) for head in heads), key=lambda each: -each[1])[:MAX_HEADS]
    rows = [[head["name"], head["head"], kind, f"{share:.2f}"] for kind, share, head in ranked]
    console.table("heads", ["attention", "head", "does", "share"], rows)
