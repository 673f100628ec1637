"""Names of columns: usual ones, and those of languages; whether the first record of a table has them."""

import re
from collections.abc import Sequence


def _words(names: str) -> tuple[str, ...]:
    return tuple(names.split())


TEXT_NAMES = _words(
    "text sentence sentences review comment content message question utterance tweet body document"
)
LABEL_NAMES = _words(
    "label labels class category sentiment polarity intent topic tag stars rating score value grade"
)
WORD_LIST_NAMES = _words("tokens words token word")  # of lists, each value of which has a label
SOURCE_NAMES, TARGET_NAMES = _words("source src input"), _words("target tgt output translation")
OTHER_NAMES = _words("id idx index title date author split url urls link timestamp")
QUESTION_NAMES, ANSWER_NAMES = _words("prompt instruction question"), _words("completion response answer")
COLUMN_NAMES = {
    *(*TEXT_NAMES, *LABEL_NAMES, *SOURCE_NAMES, *TARGET_NAMES, *OTHER_NAMES),
    *(*QUESTION_NAMES, *ANSWER_NAMES),
}
LANGUAGE_CODES = _words(
    "arabic basque bengali bulgarian catalan chinese croatian czech danish dutch english esperanto "
    "estonian finnish french galician german greek hebrew hindi hungarian icelandic indonesian irish "
    "italian japanese korean latin latvian lithuanian malay norwegian persian polish portuguese "
    "romanian russian serbian slovak slovenian spanish swahili swedish tamil thai turkish ukrainian "
    "urdu vietnamese welsh"
)
_CODE = re.compile(r"[a-z]{2,3}([-_]([A-Z]{2}|[A-Z][a-z]{3}))?")  # de, deu, de_AT, zh-Hans


def is_header(records: Sequence[Sequence[str]]) -> bool:
    """True if the first record is a header.

    It is one if it has a well-known name, if all names are languages, if all values below a name are numbers,
    or if a column has few different values and its name is not one of them.
    """
    first = [cell.strip() for cell in records[0]]
    rest = [cells for cells in records[1:] if cells != records[0]]  # it is repeated where tables were joined
    if len(set(first)) < len(first) or any(len(cells) != len(first) for cells in rest):
        return bool({cell.casefold() for cell in first} & COLUMN_NAMES)
    if all(map(names_language, first)):
        return True
    for place, cell in enumerate(first):
        below = [cells[place].strip() for cells in rest]
        values = set(below)
        if cell in values or not below:
            continue
        if cell.casefold() in COLUMN_NAMES:
            return True
        if is_number(next(iter(values))) and all(map(is_number, values)) and not is_number(cell):
            return True
        if len(below) >= 16 and len(values) <= len(below) / 8 and cell and not any(map(is_number, values)):
            return True
    return False


def names_language(name: str) -> bool:
    """True for the name of a column that is a language or its code: german, de, zh-Hans."""
    return name.casefold() in LANGUAGE_CODES or _CODE.fullmatch(name) is not None


def is_number(text: str) -> bool:
    """True if a text is a decimal number, possibly with an exponent."""
    return re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text) is not None
