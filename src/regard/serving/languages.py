"""Languages: their names, and which one a text is in, by py3langid.

It is a naive Bayes classifier of byte n-grams, the smallest (4.6 MB) and on short sentences the most accurate
of the libraries compared: `docs/serving.md` has the figures.
"""

from collections.abc import Collection
from functools import cache
from typing import Any

from regard.errors import MissingExtra

MOST_CHARACTERS = 2000  # of a text that are looked at
PROBABLE = 0.05  # from here on, a language that a model reads is preferred to the most probable one,
SURE = 0.5  # and always to one that is less probable than this
TABLE = """
af=Afrikaans ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali bs=Bosnian ca=Catalan
cs=Czech cy=Welsh da=Danish de=German el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque
fa=Persian fi=Finnish fr=French ga=Irish gl=Galician gu=Gujarati he=Hebrew hi=Hindi hr=Croatian
hu=Hungarian hy=Armenian id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh
km=Khmer kn=Kannada ko=Korean la=Latin lt=Lithuanian lv=Latvian mk=Macedonian ml=Malayalam mr=Marathi
ms=Malay mt=Maltese nb=Norwegian ne=Nepali nl=Dutch pa=Punjabi pl=Polish pt=Portuguese ro=Romanian
ru=Russian sk=Slovak sl=Slovenian sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu
th=Thai tl=Tagalog tr=Turkish uk=Ukrainian ur=Urdu vi=Vietnamese zh=Chinese
"""
NAMES = {code: name for code, _, name in (pair.partition("=") for pair in TABLE.split())}


def language_name(code: str) -> str:
    """The English name of a language; its code if it is not in the table."""
    return NAMES.get(code, code)


def detected(text: str) -> list[tuple[str, float]]:
    """The languages that a text may be in, most probable first, with their probabilities."""
    if not text.strip():
        return [("en", 0.0)]
    ranked = _identifier().rank(text[:MOST_CHARACTERS])
    return [(str(code), float(probability)) for code, probability in ranked]


def detected_among(text: str, known: Collection[str]) -> tuple[str, float]:
    """The language of a text: the most probable one of `known`, unless it is improbable."""
    ranked = detected(text)
    own = next(((code, probability) for code, probability in ranked if code in known), None)
    if own is not None and (own[1] >= PROBABLE or ranked[0][1] < SURE):
        return own
    return ranked[0]


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ModuleNotFoundError:
        raise MissingExtra("py3langid", "serve", "language detection") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
