"""Which model translates between two languages; from their names ("en-de")."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from regard.documents.html_page import HtmlPage
from regard.documents.placeholders import PLACEHOLDER
from regard.documents.tag_rules import TagRules
from regard.documents.xml_outline import outlined
from regard.errors import ConfigError
from regard.serving.dialects.controls import MOST_PHRASES
from regard.serving.dialects.dialect import Call
from regard.serving.dialects.own import count_output
from regard.serving.http_error import HttpProblem, unsupported
from regard.serving.languages import detected_among
from regard.serving.models import ModelStore, Slot
from regard.verbs.generation.glossary import RequiredText, required_texts
from regard.verbs.generation.span_links import span_links
from regard.verbs.serve import TranslationAnswerer
from regard.verbs.shared.answerer import AnswerSettings
from regard.verbs.shared.text_options import SplitMode

Entries = Callable[[str], Mapping[str, str]]
AT_ONCE = 2000  # characters whose languages are detected in the event loop; those of more in a thread


def pairs(models: ModelStore) -> Iterator[tuple[str, str, Slot]]:
    """Source, target and model of each translator whose name says its languages."""
    for slot in models.slots.values():
        if slot.languages is not None:
            yield *slot.languages, slot


def targets_by_source(models: ModelStore) -> dict[str, list[str]]:
    """The languages that each source language is translated into."""
    found: dict[str, list[str]] = {}
    for source, target, _ in pairs(models):
        if target not in found.setdefault(source, []):
            found[source].append(target)
    return found


def model_between(models: ModelStore, source: str, target: str) -> Slot:
    """The first model of this pair.

    Raises:
        HttpProblem: there is none.
    """
    known = targets_by_source(models)
    _refuse_unknown(source, "source", known)
    _refuse_unknown(target, "target", {each for some in known.values() for each in some})
    for one, other, slot in pairs(models):
        if (one, other) == (source, target):
            return slot
    raise HttpProblem(
        400,
        f"{source} to {target} is not supported",
        f"from {source}: {', '.join(known[source])}",
        parameter="target",
    )


def stays(models: ModelStore, source: str, target: str) -> bool:
    """True for a text in the target language, unless a model rewrites texts of this language."""
    return source == target and target not in targets_by_source(models).get(source, ())


def check_detected(models: ModelStore, sources: Sequence[str], target: str) -> None:
    """Refuse texts in a language without a model, except those in the target language.

    Raises:
        HttpProblem: there is such a text; it says which.
    """
    known = _sources_into(models, target)
    for number, source in enumerate(sources, 1):
        if source not in (target, *known):
            raise HttpProblem(
                400,
                f"text {number} is taken for {source}, which is not translated into {target}",
                f"name the language of the source: {', '.join(known)}",
                parameter="source",
            )


def source_of(models: ModelStore, text: str, target: str) -> tuple[str, float]:
    """The language of a text that is translated into `target`, and its probability.

    Raises:
        HttpProblem: no model translates into `target`.
    """
    return detected_among(text, _sources_into(models, target))


async def sources_of(call: Call, texts: Sequence[str], target: str) -> list[tuple[str, float]]:
    """The language of each text, and its probability, as in `source_of`.

    Raises:
        HttpProblem: no model translates into `target`, or a text that is not in this language already.
    """
    models = call.service.models

    def detected() -> list[tuple[str, float]]:
        return [source_of(models, text, target) for text in texts]

    found = detected() if sum(map(len, texts)) <= AT_ONCE else await asyncio.to_thread(detected)
    check_detected(models, [language for language, _ in found], target)
    return found


def _sources_into(models: ModelStore, target: str) -> list[str]:
    """The languages that are translated into `target`, sorted; refuses a target without any."""
    known = targets_by_source(models)
    _refuse_unknown(target, "target", {each for some in known.values() for each in some})
    return sorted(source for source, targets in known.items() if target in targets)


def _refuse_unknown(language: str, name: str, known: Collection[str]) -> None:
    if language not in known:
        hint = f"known: {', '.join(sorted(known)) or 'none'}"
        raise HttpProblem(400, f"{language[:20]} is not supported as a {name}", hint, parameter=name)


async def translated(
    call: Call,
    texts: Sequence[str],
    sources: Sequence[str],
    target: str,
    *,
    alternatives: int = 0,
    rules: TagRules | None = None,
    split: SplitMode = "auto",
    entries: Entries | None = None,
) -> list[list[str]]:
    """The translation and the alternatives of each text; the texts may be in different languages.

    With `rules` the texts are HTML, or XML. A text in the target language stays as it is.

    `entries` gives the entries of a glossary, source and target terms, that hold in a sentence. The
    translation of the sentence has all of its target terms.

    Raises:
        HttpProblem: a model cannot output a term, or leave tags among words.
    """
    settings = AnswerSettings(task="translate", count=1 + alternatives, split=split)
    found = [[text] for text in texts]
    models = call.service.models
    for source in dict.fromkeys(each for each in sources if not stays(models, each, target)):
        slot = model_between(models, source, target)
        places = [place for place, each in enumerate(sources) if each == source]
        own = [texts[place] for place in places]
        keeping = None if entries is not None else settings  # a sentence with terms has no placeholders
        pages = [] if rules is None else await _pages(call, slot, own, rules, keeping)
        parts = [page.texts for page in pages] or [[text] for text in own]
        flat = [part for some in parts for part in some]
        asked = replace(
            settings,
            alignments=any(page.has_inline_tags for page in pages),
            keep=(PLACEHOLDER,) if any(page.has_placeholders for page in pages) else (),
        )
        required = None if entries is None else partial(_terms, entries)
        try:
            answered = await call.service.answer(call.request, slot, asked, flat, required)
        except ConfigError as error:
            if entries is None:
                raise
            raise HttpProblem(
                400,
                f"the glossary cannot be honoured: {error.message}",
                "leave out the entry, or the glossary",
                parameter="glossary_id",
            ) from None
        count_output(call, [one for each in answered.answers for one in each.candidates])
        rest = iter(answered.answers)
        for number, place in enumerate(places):
            its_parts = [next(rest) for _ in parts[number]]
            if rules is None:
                found[place] = [one.text for one in its_parts[0].candidates]
            else:
                found[place] = [_filled(pages[number], its_parts)]
    return found


async def _pages(
    call: Call, slot: Slot, texts: Sequence[str], rules: TagRules, keeping: AnswerSettings | None
) -> list[HtmlPage]:
    """The texts as HTML or XML: sentences with inline tags are whole if the model can align them.

    Elements that are not translated are placeholders if translations with the settings `keeping` can have
    these.

    Raises:
        HttpProblem: the rules name inline tags, and it cannot; or a text is no XML.
    """
    model = (await call.service.models.engine(slot)).model
    whole = model.aligns
    answerer = None if keeping is None else model.answerer(keeping)
    keeps = isinstance(answerer, TranslationAnswerer) and answerer.keeps_in_documents
    if not whole and (rules.inline or not rules.outline):
        name = "non_splitting_tags" if rules.inline else "outline_detection"
        raise unsupported(
            name,
            f"{slot.name} has no attention to its source to place tags by, so that each tag splits",
        )
    try:
        own = [outlined(text, rules) if rules.xml else rules for text in texts]
    except ValueError as error:
        hint = "write & as &amp; and < as &lt;, close all elements, and leave out a DOCTYPE and its entities"
        raise HttpProblem(400, f"a text is {error}", hint, parameter="text") from None
    return [
        HtmlPage(text, its_rules, whole=whole, keeps=keeps)
        for text, its_rules in zip(texts, own, strict=True)
    ]


def _filled(page: HtmlPage, translations: Sequence[Any]) -> str:
    """The page with these translations of its texts."""
    links = [
        span_links(text, each) if page.has_inline_tags else []
        for text, each in zip(page.texts, translations, strict=True)
    ]
    return page.filled([each.text for each in translations], links)


def _terms(entries: Entries, sentence: str) -> tuple[RequiredText, ...]:
    """What the translation of a sentence must have."""
    found = entries(sentence)
    if len(found) > MOST_PHRASES:
        raise HttpProblem(
            400,
            f"a sentence has {len(found)} terms of the glossary, but may have {MOST_PHRASES}",
            "write it as several sentences",
            parameter="glossary_id",
        )
    return required_texts(found)
