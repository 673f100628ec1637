"""Markdown whose texts are replaced by themselves is the same page; code, addresses and marks stay."""

import re

import pytest
from markdown_it import MarkdownIt

from regard.documents.inline_tags import words_of
from regard.documents.markdown import Markdown
from regard.verbs.generation.translated_document import document_lines
from regard.verbs.translate import Translator

PAGE = """---
title: not this
---
# One *two* `x` #

> three **four
> five**.  
> six `a | b` seven

1. [ ] eight [nine](http://x.y/a_b "The title") ten[^1]
   - <http://a.b> \\*eleven\\* & 2 * 3 < 4, snake_case, <b>twelve</b> ![a cat](c.png) ~~thirteen~~

Title &amp; fourteen
====================

| fifteen|`a\\|b` sixteen |
|--|--|
| *seventeen* | |

> [!NOTE]
> eighteen\\
> nineteen [twenty][r]

[^1]: twenty and one

    not this

```python
not this
```

<div>
not this
</div>

[r]: http://r.s "not this"
"""


def rendered(source):
    html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source)
    return " ".join(html.split())


def filled(source, change=str):
    page = Markdown(source, whole=True)
    links = [[(span, span) for span in words_of(text)] for text in page.texts]
    return page.filled([change(text) for text in page.texts], links)


def test_a_page_with_its_own_texts_is_the_same_page():
    assert rendered(filled(PAGE)) == rendered(PAGE)
    assert filled(filled(PAGE)) == filled(PAGE)


def test_all_words_are_texts_and_nothing_else_changes():
    upper = filled(PAGE, str.upper)
    words = re.findall(r"\b(?:one|two|\w+teen|twenty\S*|[a-z]+en)\b", upper)
    assert set(words) <= {"ten"}, words
    for kept in (
        "`x`",
        "`a | b`",
        "`a\\|b`",
        '(http://x.y/a_b "The title")',
        "<http://a.b>",
        "![a cat](c.png)",
    ):
        assert kept in upper
    assert upper.count("not this") == PAGE.count("not this")
    for line in (
        "> [!NOTE]",
        "> EIGHTEEN\\",
        "1. [ ] EIGHT [NINE]",
        "[^1]: TWENTY AND ONE",
        "| *SEVENTEEN* | |",
    ):
        assert any(each.startswith(line) for each in upper.splitlines()), line
    assert Markdown(PAGE).lines[0] == 4


@pytest.mark.parametrize(
    "text", ["1. a", "- a", "# a", "> a", "a*b*", "_a_", "[a](b)", "a <b>", "&lt; a", "`a`", "\\*"]
)
def test_a_translation_is_read_as_text(text):
    page = Markdown("word\n")
    found = MarkdownIt("commonmark").parse(page.filled([text]))
    assert [token.type for token in found] == ["paragraph_open", "inline", "paragraph_close"]
    assert "".join(child.content for child in found[1].children) == text
    assert {child.type for child in found[1].children} <= {"text", "text_special"}


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("| `name` | name |\n|---|---|\n| ![x](text.png) | text |\n", 2),
        ("| `b` | ``a`` | b |\n|---|---|---|\n| <i></i> | | i |\n| - | `b` | b\n", 3),
        ("> | a | `b` | b |\n> |---|---|---|\n", 2),
        ("1. 1\n2. a\n", 2),
        ("1. | 1 | b |\n   |---|---|\n   | 1. | 1 |\n", 4),
        ("> - 1. a | 1\n>   --|--\n", 2),
    ],
)
def test_a_text_is_replaced_in_its_own_place(source, texts):
    page = Markdown(source)
    changed = page.filled([f"Z{number}" for number in range(texts)])
    for number, text in enumerate(page.texts):
        changed = changed.replace(f"Z{number}", text)
    assert changed == source
    assert Markdown(page.filled(["Z"] * texts)).texts == ["Z"] * texts


REFERENCES = """[One *two*][Ref b], [three][], [four], ![five][Ref b], [six](a.b), [seven][^1], eight[^1].

[ref B]: http://a.b "c"
[three]: d
[Four]: e
[^1]: f
"""


def test_links_by_reference_keep_their_labels():
    assert rendered(filled(REFERENCES)) == rendered(REFERENCES)
    upper, source = filled(REFERENCES, str.upper), REFERENCES
    changed = {"[One *two*]": "[ONE *TWO*]", "[three][]": "[THREE][three]", "[four]": "[FOUR][four]"}
    changed |= {"[six]": "[SIX]", "[seven]": "[SEVEN]", "eight[": "EIGHT["}
    for before, after in changed.items():
        source = source.replace(before, after, 1)
    assert upper == source
    assert filled(upper) == upper


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("front", "line"),
    [
        ("", 1),
        ("---\na: b\n---\n", 4),
        ("---\na: b\n...\n", 4),
        ("---\n---\n", 3),
        ('+++\na = """\n---\n...\n"""\n+++\n', 7),
    ],
)
def test_front_matter_and_a_byte_order_mark_stay(front, line, mark, line_end):
    source = f"{mark}{front}# One\n\ntwo\n".replace("\n", line_end)
    page = Markdown(source)
    assert (page.texts, page.lines) == (["One", "two"], [line, line + 2])
    assert page.filled(["ONE", "TWO"]) == source.replace("One", "ONE").replace("two", "TWO")


def test_a_sentence_keeps_its_emphasis_and_its_code():
    source = "# Good morning.\r\n\r\nI have a **dog**.\r\n\r\n```\r\nI am here.\r\n```\r\n- `I am here.`\r\n"
    page = "".join(document_lines(Translator(), source, "markdown", "a.md"))
    assert page == source.replace("# Good morning.", "# Guten Morgen.").replace(
        "I have a **dog**.", "Ich habe einen **Hund**."
    )
