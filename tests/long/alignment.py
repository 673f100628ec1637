"""The dates model's alignment against the true one: at least 0.9 of its links are right.

    python tests/long/alignment.py [RUN]

Trains `recipes/dates.toml`, which takes about two minutes, too long for a test, or takes an existing run
(`make demo` leaves one). A link is right if it leads from a digit of the ISO date to a character of the
source that determines it (`verbs/shared/date_precision.py`). Prints the precision for the 200 dates that the
demo uses and for all 2,000 test dates; the latter decides.
"""

import sys
import tempfile
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record
from regard.data.corpus import open_corpus
from regard.verbs.recipes import recipe_folder
from regard.verbs.shared.date_precision import date_precision
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.translation import TranslationRecipe
from regard.verbs.train import train
from regard.verbs.translate import Translator

LEAST = 0.9
COUNTS = (200, 2000)


def main() -> int:
    recipe = recipe_folder() / "dates.toml"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(sys.argv[1]) if sys.argv[1:] else Path(folder) / "dates"
        if not sys.argv[1:]:
            train(recipe, out=run, device="cpu")
        translator = Translator(run, device="cpu")
        source = load_recipe(recipe)
        data = cast(TranslationRecipe, source.recipe).data
        assert data.test is not None
        corpus = open_corpus(data.test, data.lines, source.base)
        precision = 0.0
        for count in COUNTS:
            precision = date_precision(translator.loaded, corpus.first(count)) or 0.0
            Record("alignment", full=not sys.argv[1:])(f"{count} dates", {"precision": precision})
            print(f"precision of the alignment of {count:,} dates: {precision:.3f}")
    if precision < LEAST:
        print(f"that is less than {LEAST}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
