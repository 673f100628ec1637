"""Spaces of another width, and characters without any, as a tokeniser that regard trained reads them."""

import re
from collections.abc import Iterable

from regard.data.tokenizer import Tokenizer

WITHOUT_WIDTH = "\u00ad\u200b\u2060\ufeff"  # soft hyphen, zero-width space, word joiner, byte order mark
OF_OTHER_WIDTH = "\u00a0" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
ODD_SPACE = re.compile(f"[{OF_OTHER_WIDTH}{WITHOUT_WIDTH}]")


def replaced_spaces(
    tokenizer: Tokenizer, found: Iterable[str] = (*OF_OTHER_WIDTH, *WITHOUT_WIDTH)
) -> dict[str, str]:
    """Those characters of `found` that are read as a space, or left out: the tokeniser does not know them.

    Without them the text is as those of training. A tokeniser that regard has not trained replaces none.
    """
    if not tokenizer.trained_by_regard:
        return {}
    unknown = [each for each in found if tokenizer.unk_id in tokenizer.encode(each)]
    return {each: "" if each in WITHOUT_WIDTH else " " for each in unknown}
