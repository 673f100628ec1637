"""`regard new` for a translation: survey and split the corpus, propose a run for size and time."""

import contextlib
import heapq
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from regard.counted import counted
from regard.data.catalogue import is_spec
from regard.data.corpus import Corpus
from regard.errors import DataError
from regard.verbs.proposals.budget import Budget
from regard.verbs.proposals.corpus_finding import CorpusFinding
from regard.verbs.proposals.corpus_survey import Survey, Surveyor
from regard.verbs.proposals.experiments import expected_bleu
from regard.verbs.proposals.fine_tuning import FineTuning, StartingModel, propose_fine_tuning
from regard.verbs.proposals.input_files import InputFiles
from regard.verbs.proposals.pairs import pairs_of
from regard.verbs.proposals.plan import Proposal, propose
from regard.verbs.proposals.problem_list import ProblemList
from regard.verbs.proposals.published import PART_COMMENTS, RELATIVE_PATHS, RecipeSection
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.proposals.run_plan import RunPlan
from regard.verbs.proposals.template import recipe_text
from regard.verbs.proposals.written_recipe import WrittenRecipe, split_digest

MIN_PAIRS = 20  # with fewer there is nothing to hold out and nothing to learn from
FEW_PAIRS = 500  # of fewer not even short sentences are learned
MAX_HELD_OUT_PAIRS = 2000  # and at most one in twenty
SIDES = "source", "target"


def new_translation(
    files: InputFiles,
    columns: Sequence[str],
    budget: Budget,
    init: StartingModel | None,
    location: RecipeLocation,
    folder: Path,
    *,
    clean: bool = False,
) -> WrittenRecipe:
    """Write the pairs, with some held out, and the recipe of a translation for them.

    With `init` the recipe fine-tunes that model; without, it trains a new one. `clean`: pairs that look like
    mistakes are left out. Either way PROBLEMS lists all of them.

    Raises:
        DataError: there are too few pairs, or all sources are the same.
    """
    corpus = pairs_of(files.train, columns)
    held_out = {
        name: pairs_of(part_files, columns)
        for name, part_files in (("validation", files.valid), ("test", files.test))
        if part_files
    }
    survey, last_valid = _survey(corpus, held_out)
    problems = ProblemList(survey, folder, leaves_out=clean)
    counts = _split(corpus, folder, None if files.valid else last_valid, problems)
    train_pairs = counts["train"]
    sections = {part: _written_section(part, location) for part in ("train", "valid")}
    for part, part_files in (("valid", files.valid), ("test", files.test)):
        if part_files:
            sections[part], counts[part] = _input_section(part, part_files, columns, location, folder)
    proposal = _proposed(survey, train_pairs, budget, location, init)
    if init is None:
        expected = expected_bleu(train_pairs, proposal.epochs * survey.target_tokens, survey.tokenize)
        score = _expected_score(expected)
    else:
        expected, score = None, _score_before(init.name, sections, location)
    about = f"{train_pairs:,} pairs of {' and '.join(Path(file).name for file in files.train)}"
    findings = survey.exact_findings(problems.found)
    data = "\n".join(map(str, sections.values()))
    return WrittenRecipe(
        text=recipe_text(location.name, about, data, proposal, survey, expected),
        counts=counts,
        unit="pairs",
        skipped=_reasons(corpus.skipped) + problems.left_out + problems.redundant,
        summary=_summary(proposal, budget),
        warnings=[
            *(_said(each, clean=clean) for each in findings if not each.is_usual),
            *problems.summary(location.data),
            *_too_few(train_pairs, init),
            *proposal.warnings,
        ],
        notes=[*(_said(each, clean=clean) for each in findings if each.is_usual), score],
    )


def _too_few(pairs: int, init: StartingModel | None) -> Iterator[str]:
    """A warning for a corpus that no new model can learn a language from."""
    if init is None and pairs < FEW_PAIRS:
        yield (
            f"{counted(pairs, 'pair')} to train on are too few for useful translations: give some thousands"
            " or more, or fine-tune a trained model: --init MODEL"
        )


def _said(finding: CorpusFinding, *, clean: bool) -> str:
    """The text of a finding, and whether its pairs are left out, if no list has them."""
    if finding.kind == "misaligned":  # where it begins and ends is an estimate
        kept = "these lines are still in the data" if clean else "--clean does not leave these lines out"
        return f"{finding.text}; {kept}: align the files first"
    if finding.kind not in ("duplicates", "overlap"):
        return finding.text
    return finding.text + ("; left out" if clean else "; --clean leaves them out")


def _reasons(skipped: Counter[str]) -> Counter[str]:
    """Why lines were left out; of a table only repeated headers are malformed and not refused."""
    named = {"malformed": "repeated header"}
    return Counter({named.get(reason, reason): count for reason, count in skipped.items()})


def _proposed(
    survey: Survey, pairs: int, budget: Budget, location: RecipeLocation, init: StartingModel | None
) -> Proposal | FineTuning:
    """The run for the corpus and the time: of a new model, or of the trained model `init`."""
    sample = survey.sample.pairs
    if init is not None:
        name = init.name if init.is_included else location.relative_path(init.name)
        return propose_fine_tuning(init.loaded, name, sample, pairs=pairs, budget=budget)
    return propose(
        sample,
        pairs=pairs,
        shared_letters=survey.shared_letters,
        characters=max(survey.source.frequent_characters, survey.target.frequent_characters),
        minutes=budget.minutes,
        device=budget.device,
        threads=budget.cores,
    )


def _summary(proposal: RunPlan, budget: Budget) -> str:
    count = budget.cores or proposal.threads
    cores = "" if count is None or budget.device.type != "cpu" else f" of {counted(count, 'core')}"
    limit = "" if budget.has_minutes else "; at most an hour, since --minutes is not set"
    return (
        f"a model of {proposal.parameters / 1e6:.1f} M parameters, {proposal.max_steps:,} updates"
        f" ({counted(round(proposal.epochs), 'epoch')}), {minutes_in_words(proposal.minutes)}{cores}"
        f" on this machine{limit}"
    )


def minutes_in_words(minutes: float) -> str:
    if minutes < 1:
        return f"about {60 * minutes:.0f} seconds"
    return f"about {counted(round(minutes), 'minute')}"


def _expected_score(expected: tuple[float, float] | None) -> str:
    if expected is None:
        return "no similar run has been measured: docs/recipes-by-size.md"
    low, high = expected
    return f"similar runs gave BLEU {low:.0f} to {high:.0f}: docs/recipes-by-size.md"


def _score_before(init: str, sections: Mapping[str, RecipeSection], location: RecipeLocation) -> str:
    """The command that scores the trained model on the test pairs, or on those to validate on."""
    settings = sections.get("test", sections["valid"]).settings
    paths = [str(settings[side][0]) for side in SIDES]
    files = [path if is_spec(path) else str(location.recipe.parent / path) for path in paths]
    command = shlex.join(["regard", "evaluate", "--model", init, "--src", files[0], "--ref", files[1]])
    return f"the score before fine-tuning: {command}"


def _survey(corpus: Corpus, held_out: Mapping[str, Corpus]) -> tuple[Survey, int]:
    """The survey of the corpus, and the largest digest that is held out, in one pass."""
    surveyor = Surveyor(corpus, held_out)

    def digests() -> Iterator[int]:
        for pair in corpus:
            surveyor.add(pair)
            yield split_digest(pair.source)

    smallest = heapq.nsmallest(MAX_HELD_OUT_PAIRS, digests())
    if surveyor.pairs < MIN_PAIRS:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in _reasons(corpus.skipped).items())
        left_out = f" (left out: {reasons})" if reasons else ""
        raise DataError(
            f"{corpus.name}: {surveyor.pairs} pairs are too few to learn from{left_out}",
            f"give {MIN_PAIRS} or more; a usable model needs some thousands",
        )
    return surveyor.survey(), smallest[min(MAX_HELD_OUT_PAIRS, surveyor.pairs // 20) - 1]


def _split(corpus: Corpus, folder: Path, last_valid: int | None, problems: ProblemList) -> dict[str, int]:
    """Write pairs with a digest up to `last_valid` to `valid`, others to `train`; how many each has."""
    counts: dict[str, int] = {"train": 0, "valid": 0}
    with contextlib.ExitStack() as files:
        parts = ("train",) if last_valid is None else ("train", "valid")
        opened = {part: _open_pairs(folder, part, files) for part in parts}
        for pair in problems.kept(corpus):
            part = "train" if last_valid is None or split_digest(pair.source) > last_valid else "valid"
            counts[part] += 1
            for file, text in zip(opened[part], (pair.source, pair.target), strict=True):
                file.write(text + "\n")
    if not counts["train"]:
        raise DataError(f"{corpus.name}: all source lines are the same", "give a corpus with different lines")
    if last_valid is not None and not counts["valid"]:
        raise DataError(
            f"{corpus.name}: no pair is left to validate on", "give --valid, or leave out --clean"
        )
    return counts


def _open_pairs(folder: Path, part: str, open_files: contextlib.ExitStack) -> list[TextIO]:
    names = [folder / f"{part}.{side}" for side in SIDES]
    return [open_files.enter_context(name.open("w", encoding="utf-8", newline="\n")) for name in names]


def _written_section(part: str, location: RecipeLocation) -> RecipeSection:
    """The section of a part that was written into the data folder."""
    return _section(part, *(location.file(f"{part}.{side}") for side in SIDES))


def _input_section(
    part: str, files: Sequence[str], columns: Sequence[str], location: RecipeLocation, folder: Path
) -> tuple[RecipeSection, int]:
    """The section and pairs of the user's files for a part; a table is written as two files."""
    corpus = pairs_of(files, columns)
    pairs = 0
    with contextlib.ExitStack() as opened:
        sides = _open_pairs(folder, part, opened) if len(files) == 1 else []
        for pair in corpus:
            pairs += 1
            for file, text in zip(sides, (pair.source, pair.target), strict=False):
                file.write(text + "\n")
    if not pairs:
        raise DataError(f"{corpus.name}: no pair is left", "look at its lines: each side needs text")
    if len(files) == 1:
        return _written_section(part, location), pairs
    return _section(part, *map(location.relative_path, files)), pairs


def _section(part: str, source: str, target: str) -> RecipeSection:
    about = PART_COMMENTS[part] or f"two aligned files, plain or gzipped; {RELATIVE_PATHS}"
    settings = {"source": (source, "a sentence per line"), "target": (target, "its translation")}
    return RecipeSection(title=f"data.{part}", about=about, settings=settings)
