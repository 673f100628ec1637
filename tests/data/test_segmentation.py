"""Text that another tool has cut is recognised by its marks; text as people write it is not."""

import pytest

from regard.data.segmentation import segmentation_of

TEXT = [f"Nobody knows, number {i} said, where she went yesterday." for i in range(40)]
FRENCH = [f"Pourquoi ? dit-elle ; « parce que » {i}, enfin !" for i in range(40)]
CUT = {
    "subword-nmt": "no@@ body knows wh@@ ere she went",
    "SentencePiece": "\u2581nobody \u2581know s \u2581where",
    "OpenNMT's Tokenizer": "nobody knows\uffed , where she went",
    "factors": "nobody\uffe8C knows\uffe8l where\uffe8l",
    "tokenised": "nobody knows , said the man , where she went .",
}


@pytest.mark.parametrize("name", list(CUT))
def test_the_tool_is_named_even_if_some_lines_lack_its_mark(name):
    found = segmentation_of([CUT[name]] * 40 + ["short line"] * 40)
    assert found is not None
    assert name in found.done


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["x"] * 100,
        TEXT,
        FRENCH,
        [*TEXT, *["@@ -1,3 +1,4 @@ of a diff"] * 20],
        [*TEXT[:4], "one mark alo@@ ne"],
        [*TEXT, "an address of a@@b kind ,", "a \u2581 b", "1 . 2 ."],
        ["3 . 14 , 15 ."] * 40,  # numbers, as lists of them have
    ],
)
def test_text_as_people_write_it_has_none(lines):
    assert segmentation_of(lines) is None


def test_a_few_tokenised_lines_do_not_tell():
    assert segmentation_of([CUT["tokenised"]] * 5) is None
