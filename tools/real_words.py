"""Generates texts with a language model and prints the share of real words by their place in the text.

.venv/bin/python tools/real_words.py runs/shakespeare-char-cpu --prompt ROMEO:

A word is real if the text that the model was trained on has it. A model that sees more tokens at once than it
was trained on writes fewer and fewer of them (`--max-context 0` shows it).
"""

import argparse
import re
import time
from pathlib import Path

import regard
from regard.data.documents import Documents
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.language_model import LanguageModelRecipe

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="the run folder of a language model")
    parser.add_argument("--prompt", default="ROMEO:", help="what each text begins with (default: ROMEO:)")
    parser.add_argument("--samples", type=int, default=20, help="how many texts (default: 20)")
    parser.add_argument("--tokens", type=int, default=500, help="new tokens of each (default: 500)")
    parser.add_argument("--part", type=int, default=100, help="characters of each part (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples (default: 0)")
    parser.add_argument("--max-context", type=int, help="tokens the model sees (default: as it was trained)")
    options = parser.parse_args()
    known = vocabulary(options.model)
    more = {} if options.max_context is None else {"max_context": options.max_context}
    began = time.monotonic()
    texts = regard.generate(
        options.prompt,
        model=options.model,
        num=options.samples,
        max_new_tokens=options.tokens,
        seed=options.seed,
        threads=1,
        **more,
    )
    seconds = time.monotonic() - began
    for number, (real, words) in enumerate(shares(texts, len(options.prompt), known, options.part)):
        first = number * options.part
        print(f"characters {first:5} to {first + options.part:5}: {real / words:.2f} of {words:,} words")
    print(f"{options.samples} texts of {options.tokens} tokens in {seconds:.1f} s")


def vocabulary(model: Path) -> set[str]:
    """The words of the text that a run was trained on."""
    folder = model / "best" if (model / "best").is_dir() else model
    source = load_recipe(folder / "recipe.toml")
    assert isinstance(source.recipe, LanguageModelRecipe), "a language model's run"
    return {word for text in Documents(source.recipe.data.train, source.base) for word in WORD.findall(text)}


def shares(texts: list[str], skipped: int, known: set[str], part: int) -> list[tuple[int, int]]:
    """Of each part of the texts how many words are real, and how many there are.

    A word counts where it begins. The first `skipped` characters are the prompt; the last word, which may be
    cut off, is left out.
    """
    found: dict[int, list[bool]] = {}
    for text in texts:
        written = text[skipped:]
        for word in WORD.finditer(written):
            if word.end() < len(written):
                found.setdefault(word.start() // part, []).append(word[0] in known)
    return [(sum(found.get(number, [])), len(found.get(number, []))) for number in range(max(found) + 1)]


if __name__ == "__main__":
    main()
