"""DeepL's glossaries: version 2, of one pair of languages each, and version 3, of several."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from regard.serving.dialects.dialect import Call, Route, json_response
from regard.serving.dialects.fields import fields_of
from regard.serving.dialects.pairs import pairs
from regard.serving.glossaries import Glossary, GlossaryStore, Languages, dictionary_of
from regard.serving.glossary_entries import requested_entries
from regard.serving.http_error import HttpProblem
from regard.serving.models import ModelStore
from regard.verbs.generation.glossary import Dictionary

FIELDS = ("name", "source_lang", "target_lang", "entries", "entries_format")
LANGUAGES = ("source_lang", "target_lang")
TSV = "text/tab-separated-values"
FULL: Mapping[str, Any] = {"statuses": (456,)}  # where there is no room
CREATED: Mapping[str, Any] = {"success": 201, **FULL}
GONE: Mapping[str, Any] = {"success": 204}
# that a target language may have; no model here tells them apart
VARIANTS = {"en-gb", "en-us", "es-419", "pt-br", "pt-pt", "zh-hans", "zh-hant"}


class Entries(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


class NewGlossary(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    dictionaries: list[Entries]


class ChangedGlossary(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str | None = None
    dictionaries: list[Entries] | None = None


class DeepLGlossaries:
    """The operations on glossaries."""

    def __init__(self, store: GlossaryStore) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v2/glossary-language-pairs", self.pairs, "The languages of glossaries."),
            Route("GET", "/v2/glossaries", self.list_single, "The glossaries of one pair of languages."),
            Route("POST", "/v2/glossaries", self.create_single, "Keep a glossary.", form=True, **CREATED),
            Route("GET", "/v2/glossaries/{}", self.get_single, "A glossary."),
            Route("DELETE", "/v2/glossaries/{}", self.delete_single, "Remove a glossary.", **GONE),
            Route("GET", "/v2/glossaries/{}/entries", self.single_entries, "Its entries, as TSV."),
            Route("GET", "/v3/glossaries", self.list_all, "All glossaries."),
            Route("POST", "/v3/glossaries", self.create, "Keep a glossary.", body=NewGlossary, **CREATED),
            Route("GET", "/v3/glossaries/{}", self.get, "A glossary."),
            Route(
                "PATCH",
                "/v3/glossaries/{}",
                self.change,
                "Another name, or more entries.",
                body=ChangedGlossary,
                **FULL,
            ),
            Route("DELETE", "/v3/glossaries/{}", self.delete, "Remove a glossary.", **GONE),
            Route(
                "GET",
                "/v3/glossaries/{}/entries",
                self.entries,
                "The entries of a dictionary, as TSV.",
                query=LANGUAGES,
            ),
            Route(
                "PUT",
                "/v3/glossaries/{}/dictionaries",
                self.replace,
                "Replace a dictionary.",
                body=Entries,
                **FULL,
            ),
            Route(
                "DELETE",
                "/v3/glossaries/{}/dictionaries",
                self.remove,
                "Remove a dictionary.",
                query=LANGUAGES,
                **GONE,
            ),
        ]

    async def pairs(self, call: Call) -> Response:
        await _no_fields(call)
        found = dict.fromkeys((source, target) for source, target, _ in pairs(call.service.models))
        return json_response({"supported_languages": [_languages(each) for each in found]})

    # Version 2

    async def list_single(self, call: Call) -> Response:
        await _no_fields(call)
        return json_response(
            {"glossaries": [_single(each) for each in self._store.all() if _is_single(each)]}
        )

    async def create_single(self, call: Call) -> Response:
        fields = await fields_of(call)
        fields.refuse_others(FIELDS)
        given = {name: value for name in FIELDS if (value := fields.text(name)) is not None}
        for name in FIELDS:
            if name not in given and name != "entries_format":
                raise HttpProblem(400, f"{name} is missing", f"send {name}", parameter=name)
        name = given.pop("name")
        made = await self._created(call, NewGlossary(name=name, dictionaries=[Entries(**given)]))
        return json_response(_single(made), 201)

    async def get_single(self, call: Call) -> Response:
        await _no_fields(call)
        return json_response(_single(self._get_single(call.path)))

    async def delete_single(self, call: Call) -> Response:
        await _no_fields(call)
        return await self._deleted(self._get_single(call.path))

    async def single_entries(self, call: Call) -> Response:
        await _no_fields(call)
        [dictionary] = self._get_single(call.path).dictionaries.values()
        return Response(dictionary.tsv(), media_type=f"{TSV}; charset=utf-8")

    def _get_single(self, identifier: str) -> Glossary:
        found = self._store.get(identifier)
        if not _is_single(found):
            raise HttpProblem(
                404,
                f"the glossary has {len(found.dictionaries)} dictionaries",
                "see /v3/glossaries",
                code="not_found",
            )
        return found

    # Version 3

    async def list_all(self, call: Call) -> Response:
        await _no_fields(call)
        return json_response({"glossaries": [_several(each) for each in self._store.all()]})

    async def create(self, call: Call) -> Response:
        return json_response(_several(await self._created(call, await call.body(NewGlossary))), 201)

    async def get(self, call: Call) -> Response:
        await _no_fields(call)
        return json_response(_several(self._store.get(call.path)))

    async def change(self, call: Call) -> Response:
        body = await call.body(ChangedGlossary)

        def changed() -> Glossary:
            merged = _dictionaries(call.service.models, body.dictionaries or [])
            return self._store.change(call.path, name=body.name, merged=merged)

        return json_response(_several(await asyncio.to_thread(changed)))

    async def delete(self, call: Call) -> Response:
        await _no_fields(call)
        return await self._deleted(self._store.get(call.path))

    async def entries(self, call: Call) -> Response:
        languages = await _asked_languages(call)
        dictionary = dictionary_of(self._store.get(call.path), languages)
        found = {**_languages(languages), "entries": dictionary.tsv(), "entries_format": "tsv"}
        return json_response({"dictionaries": [found]})

    async def replace(self, call: Call) -> Response:
        body = await call.body(Entries)

        def replaced() -> dict[Languages, Dictionary]:
            dictionaries = _dictionaries(call.service.models, [body])
            self._store.change(call.path, replaced=dictionaries)
            return dictionaries

        [(languages, dictionary)] = (await asyncio.to_thread(replaced)).items()
        return json_response(_counted(languages, dictionary))

    async def remove(self, call: Call) -> Response:
        languages = await _asked_languages(call)
        await asyncio.to_thread(self._store.change, call.path, removed=languages)
        return Response(status_code=204)

    # Both

    async def _created(self, call: Call, body: NewGlossary) -> Glossary:
        """Keep a glossary; in a thread, for there may be many entries, and a file is written."""

        def made() -> Glossary:
            return self._store.create(body.name, _dictionaries(call.service.models, body.dictionaries))

        return await asyncio.to_thread(made)

    async def _deleted(self, glossary: Glossary) -> Response:
        await asyncio.to_thread(self._store.delete, glossary.id)
        return Response(status_code=204)


def language_code(language: str | None) -> str:
    """DeepL's code in lower case; of the variants that DeepL knows without the region: "EN-US" is "en"."""
    code = (language or "").lower()
    return code.partition("-")[0] if code in VARIANTS else code


def _dictionaries(models: ModelStore, given: Sequence[Entries]) -> dict[Languages, Dictionary]:
    """The dictionaries of a request.

    Raises:
        HttpProblem: no model translates between such languages, two have the same, or an entry is wrong.
    """
    found: dict[Languages, Dictionary] = {}
    for each in given:
        languages = language_code(each.source_lang), language_code(each.target_lang)
        known = [f"{source} to {target}" for source, target, _ in pairs(models)]
        if f"{languages[0]} to {languages[1]}" not in known:
            raise HttpProblem(
                400,
                f"no model translates from {languages[0][:20]!r} to {languages[1][:20]!r}",
                f"known: {', '.join(known) or 'none'}",
                parameter="source_lang",
            )
        if languages in found:
            raise HttpProblem(
                400,
                "two dictionaries have the same languages",
                "send one for each pair",
                parameter="dictionaries",
            )
        found[languages] = requested_entries(each.entries, each.entries_format, languages)
    return found


async def _no_fields(call: Call) -> None:
    """Refuse fields in the query or the body."""
    (await fields_of(call, may_be_empty=True)).refuse_others(())


async def _asked_languages(call: Call) -> Languages:
    """The pair of languages in the query."""
    fields = await fields_of(call, may_be_empty=True)
    fields.refuse_others(LANGUAGES)
    for name in LANGUAGES:
        if not fields.text(name):
            raise HttpProblem(400, f"{name} is missing", f"send {name}", parameter=name)
    return language_code(fields.text("source_lang")), language_code(fields.text("target_lang"))


def _is_single(glossary: Glossary) -> bool:
    return len(glossary.dictionaries) == 1


def _single(glossary: Glossary) -> dict[str, Any]:
    """A glossary of one dictionary, as version 2 has it."""
    [(languages, dictionary)] = glossary.dictionaries.items()
    return {**_named(glossary), "ready": True, **_counted(languages, dictionary)}


def _several(glossary: Glossary) -> dict[str, Any]:
    """A glossary as version 3 has it."""
    return {**_named(glossary), "dictionaries": [_counted(*each) for each in glossary.dictionaries.items()]}


def _named(glossary: Glossary) -> dict[str, Any]:
    return {"glossary_id": glossary.id, "name": glossary.name, "creation_time": glossary.created}


def _counted(languages: Languages, dictionary: Dictionary) -> dict[str, Any]:
    return {**_languages(languages), "entry_count": len(dictionary.entries)}


def _languages(languages: Languages) -> dict[str, str]:
    return dict(zip(LANGUAGES, languages, strict=True))
