"""What is kept stands in the translation once, as it was; all else is translated."""

import re
from typing import Any

import pytest

from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError
from regard.verbs.generation.keeping import KeepingTranslator
from regard.verbs.generation.kept_texts import PATTERNS, PLACEHOLDERS, Moved, TextHider, patterns_of
from regard.verbs.generation.span_links import span_links
from regard.verbs.load import load
from regard.verbs.shared.text_options import TranslationOptions
from regard.verbs.translate import Translator, translate, translate_file

TEXTS = {  # with what is kept of them
    "Hello {name}, welcome back!": ["{name}"],
    "You have %d new messages and 42 dogs.": ["%d"],
    "Write to info@example.com. See https://example.com/help?x=1&y=a.b.": [
        "info@example.com",
        "https://example.com/help?x=1&y=a.b",
    ],
    "{first}{last} lives in ${city} or in {{ home.town }}": ["{first}{last}", "${city}", "{{ home.town }}"],
    "Press <0>here</0>, %(name)s!": ["<0>", "</0>", "%(name)s"],
    "%1$s: %2$.1f": ["%1$s", "%2$.1f"],
    "{a} {b} {a}": ["{a}", "{b}", "{a}"],
}
PLAIN = ["50% of the dogs like it, 100% sure", "a < b and b > c", "", "A dog.", "..."]


@pytest.fixture(scope="module")
def hider():
    tokenizer = train_tokenizer(
        ["42 58 73 a b . ! , dog"] * 3, "words", TokenizerSettings(kind="bpe", vocab_size=99)
    )
    return TextHider(patterns_of([PLACEHOLDERS]), tokenizer, tokenizer)


@pytest.mark.parametrize("text", [*TEXTS, *PLAIN])
def test_placeholders_and_addresses_are_found_and_no_other_texts(hider, text):
    assert [each.text for each in hider.hidden(text).kept] == TEXTS.get(text, [])


def test_an_address_is_looked_for_once_in_each_run_of_its_characters():
    [pattern] = [re.compile(each) for each in PATTERNS if re.fullmatch(each, "a.b@c.d")]
    assert [bool(pattern.match("a.b@c.d", place)) for place in range(3)] == [True, False, False]


def test_a_stand_in_is_a_number_of_its_own_that_the_text_has_not(hider):
    hidden = hider.hidden("42 dogs, %d or {name} dogs")
    assert hidden.text == "42 dogs, 58 or 73 dogs"
    hidden = hider.hidden("a <b>dog</b>")
    assert hidden.text == "a 42 dog 58"
    text, moved = hidden.restored("58 ein 42 Hund!")
    assert text == "</b> ein <b>Hund!"
    assert moved.span((3, 6)) == (5, 8)
    for wrong in ("ein 42 Hund", "42 58 58", "42 158", "42 5.58", "4258"):
        assert hidden.restored(wrong) is None


def test_places_move_with_the_texts_that_are_put_in():
    moved = Moved((((2, 4), (2, 8)), ((6, 8), (10, 11))))
    assert [moved(place) for place in (0, 2, 4, 5, 6, 8, 9)] == [0, 2, 8, 9, 10, 11, 12]
    assert moved.span((2, 3)) == moved.span((2, 4)) == (2, 8)
    assert moved.span((0, 5)) == (0, 9)


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"sample": True, "seed": 1}], ids=str)
@pytest.mark.parametrize("own", [False, True])
def test_each_kept_text_is_in_the_translation_once_whatever_the_model_writes(untrained, settings, own):
    model = load(untrained if own else None)
    found = translate([*TEXTS], model=model, keep=[PLACEHOLDERS], **settings)
    for text, kept in zip(found, TEXTS.values(), strict=True):
        for each in kept:
            assert text.count(each) == kept.count(each)
    if not settings.get("sample"):
        assert found == [translate(text, model=model, keep=[PLACEHOLDERS], **settings) for text in TEXTS]


def test_texts_without_any_are_as_without():
    assert translate(PLAIN, keep=[PLACEHOLDERS]) == translate(PLAIN)
    assert translate([*TEXTS], keep=["none"]) == translate([*TEXTS])


def test_an_expression_of_the_user_is_kept_as_it_is():
    assert "New  York" in translate("I live in New  York.", keep=[r"New\s+York"])
    assert translate("12 %", keep=[r"\d+ %"]) == "12 %"
    assert translate(" 12 %\n", keep=[r"\d+ %"]) == " 12 %\n"


ACROSS = {  # expressions that match over the border of two sentences or lines, with what they match
    "See v. 2. It is new.": (r"v\. 2\. It", "v. 2. It"),
    "Hello {{ home. Town }}. How are you?": (PLACEHOLDERS, "{{ home. Town }}"),
    "I have a big\ndog. It is old.": (r"big\s+dog", "big\ndog"),
    "Go. Stop! Where are you? Come in.": (r"(?<=Go\. )Stop", "Stop"),  # alone its sentence has no match
}


@pytest.mark.parametrize("text", ACROSS)
def test_a_text_over_the_border_of_two_sentences_is_kept(text):
    pattern, kept = ACROSS[text]
    assert translate(text, keep=[pattern]).count(kept) == 1
    [lines] = Translator(keep=[pattern], split="on")([text.replace("\n", " ")])
    assert kept.replace("\n", " ") in lines.text


def test_sentences_are_apart_as_without_where_nothing_is_kept_over_their_border():
    translator = Translator(keep=["Go", r"v\. 2"])
    assert translator.pieces(["Go. Stop! See v. 2. Go."]) == [["Go. ", "Stop! ", "See v. 2. ", "Go."]]
    assert translator.pieces(["", "a\n\nb"]) == Translator().pieces(["", "a\n\nb"])


def test_each_sentence_is_searched_once_however_much_of_it_is_kept(hider, monkeypatch):
    pieces, read, spans = ["a {b} c" * 50, "d"], [], TextHider._spans
    monkeypatch.setattr(TextHider, "_spans", lambda self, text: read.append(text) or spans(self, text))
    assert hider.unbroken(pieces) == pieces
    assert sorted(read) == sorted({*read})


@pytest.mark.parametrize("blank", [r"\b", r"\s+", "(?=a)"])
def test_an_expression_that_matches_nothing_but_blanks_is_named_once(blank, capsys):
    assert translate(["A man and a dog."] * 2, keep=[blank]) == translate(["A man and a dog."] * 2)
    assert capsys.readouterr().err.count("matches an empty text or spaces") == 1


def test_terms_of_a_glossary_are_required_beside_it(tmp_path):
    (tmp_path / "terms.tsv").write_text("snow\tMilch\n")
    found = translate("The snow of {name} is cold.", keep=[PLACEHOLDERS], glossary=tmp_path / "terms.tsv")
    assert "Milch" in found
    assert "{name}" in found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": ["("]}, "is no regular expression"),
        ({"keep": ["x*"]}, "matches an empty text"),
        ({"keep": ["x"], "must_contain": ["a"]}, "do not go together"),
        ({"keep": ["x"], "stop": ["a"]}, "do not go together"),
    ],
)
def test_what_cannot_be_kept_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Translator(**settings)


@pytest.mark.parametrize("settings", [{}, {"sample": True, "seed": 1}], ids=str)
@pytest.mark.parametrize("own", [False, True])
def test_a_running_batch_has_the_same_translations(untrained, settings, own):
    """The untrained model copies no stand-in, so that parts join the batch."""
    translator = Translator(untrained if own else None, keep=[PLACEHOLDERS], **settings)
    pieces = [*TEXTS, *PLAIN]
    batch = translator.running()
    tickets = [batch.add(piece, place) for place, piece in enumerate(pieces)]
    batch.cancel(tickets.pop(0))
    found = {}
    while batch:
        found |= dict(batch.step())
    wanted = translator.of_pieces(pieces, range(len(pieces)))[1:]
    assert [found[ticket].candidates for ticket in tickets] == [each.candidates for each in wanted]
    assert len(found) == len(tickets)


def test_what_is_kept_is_not_unknown():
    plain, keeping = Translator(), Translator(keep=["[ŁŒ]+"])
    assert plain.count_unknown("Hello ŁŒ!") > keeping.count_unknown("Hello ŁŒ!") == 0


def test_each_candidate_has_it():
    translator = Translator(keep=[PLACEHOLDERS], n_best=4)
    [found] = translator(["Hello {name}, welcome back!"])
    assert found.source == "Hello {name}, welcome back!"
    assert all(each.text.count("{name}") == 1 for each in found.candidates)


@pytest.mark.parametrize("copies", [True, False])
def test_alignments_are_of_the_texts_as_they_are_written(copies):
    """A model that copies the stand-in, and one that leaves it out."""
    translator = Translator()

    def piecewise(pieces, numbers, **settings):
        return translator.of_pieces(
            [each if copies else each.replace("42", "") for each in pieces], numbers, **settings
        )

    tokenizers = translator.loaded.tokenizers
    hider = TextHider(patterns_of([PLACEHOLDERS]), tokenizers.source, tokenizers.target)
    text = " Dear {name}, my dog sleeps."
    [found] = KeepingTranslator(hider, piecewise, samples=False)([text], [1], alignments=True)
    linked = {
        (text[slice(*one)].strip(), found.text[slice(*other)].strip())
        for one, other in span_links(text, found)
    }
    assert found.text.count("{name}") == 1
    assert ("dog", "Hund") in linked
    assert (("{name}", "{name}") in linked) == copies


def test_documents_keep_placeholders_by_default(tmp_path):
    page, lines = tmp_path / "page.html", tmp_path / "lines.txt"
    page.write_text("<p>Hello {name}, write to <b>info@example.com</b> today.</p>\n")
    translate_file(page, tmp_path / "out.html")
    translated = (tmp_path / "out.html").read_text()
    assert "{name}" in translated
    assert "<b>info@example.com</b>" in translated
    translate_file(page, tmp_path / "plain.html", keep=["none"])
    assert "{name}" not in (tmp_path / "plain.html").read_text()
    lines.write_text("Hello {name}\n")
    translate_file(lines, tmp_path / "out.txt")
    assert "{name}" not in (tmp_path / "out.txt").read_text()


def test_one_expression_in_the_options_is_one(monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    assert TranslationOptions(keep="placeholders").keep == ("placeholders",)  # pyright: ignore[reportArgumentType]


def test_keeping_nothing_goes_together_with_all_controls(untrained):
    settings: dict[str, Any] = {"keep": "none", "must_contain": "7", "beam_size": 2}
    [found] = translate(["1 2 3"], model=untrained, **settings)
    assert "7" in found
