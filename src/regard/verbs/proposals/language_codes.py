"""Language codes in file names, such as train.ja or news.ru.txt, and the scripts of the languages."""

import re

_CODES = {
    "Latin": "en de fr es it pt nl sv da no nb nn fi et lv lt pl cs sk sl hr hu ro tr vi id ms sw eu ca gl ga"
    " is mt af eng deu ger fra fre spa ita por nld swe dan fin pol ces cze hun ron tur vie ind",
    "Cyrillic": "ru uk be bg mk rus ukr bul",
    "Greek": "el ell gre",
    "Arabic": "ar fa ur ps ara fas urd",
    "Hebrew": "he heb",
    "Devanagari": "hi mr ne hin mar nep",
    "Bengali": "bn ben",
    "Tamil": "ta tam",
    "Telugu": "te tel",
    "Georgian": "ka kat",
    "Armenian": "hy hye",
    "Thai": "th tha",
    "Lao": "lo lao",
    "Khmer": "km khm",
    "Myanmar": "my mya",
    "Tibetan": "bo bod",
    "Han": "zh zho cmn",
    "Japanese": "ja jpn",
    "Hangul": "ko kor",
}
_SCRIPTS = {code: script for script, codes in _CODES.items() for code in codes.split()}


def script_of_name(file: str) -> str | None:
    """The script of the language code that a file name ends with (`train.ja`, `train.ja.gz`), or None."""
    ending = re.sub(r"\.(gz|txt)$", "", file).rpartition(".")[2]
    return _SCRIPTS.get(ending.lower()) if ending != file else None
