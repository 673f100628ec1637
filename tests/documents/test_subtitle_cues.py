"""Subtitles keep numbers, times and settings; the text of each cue is translated."""

import pytest

from regard.documents.subtitle_cues import Subtitles

SRT = """\
1
00:00:01,000 --> 00:00:02,500
Hello.

2
00:00:03,000 --> 00:00:06,000
This is one sentence
on two lines.

3
00:00:07,000 --> 00:00:08,000
- Yes?
- No!

4
00:00:09,000 --> 00:00:10,000
{\\an8}<i>R&B < Jazz</i>

5
00:00:11,000 --> 00:00:12,000
♪
"""
VTT = """\
WEBVTT - a title

NOTE a remark
of two lines

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Mary>Ham &amp; eggs
"""


def upper(subtitles):
    return subtitles.filled([text.upper() for text in subtitles.texts])


def test_the_text_of_each_cue_is_translated_as_a_whole_and_has_as_many_lines():
    found = Subtitles(SRT, "srt", whole=True)
    sentence = "This is one sentence on two lines."
    assert found.texts == ["Hello.", sentence, "Yes?", "No!", "R&B < Jazz"]
    expected = SRT
    for text in ("Hello.", "This is one sentence", "on two lines.", "Yes", "No", "Jazz"):
        expected = expected.replace(text, text.upper())
    assert upper(found) == expected


def test_what_is_not_a_cue_stays_in_webvtt():
    found = Subtitles(VTT, "vtt")
    assert found.texts == ["Ham & eggs"]
    assert upper(found) == VTT.replace("Ham &amp; eggs", "HAM &amp; EGGS")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(SRT, "srt"), (VTT, "vtt")]
    + [
        (each, kind)
        for each in ("", "\n", "no cue\n", "a\n\n\n\nb", "1\n0 --> 1\n")
        for kind in ("srt", "vtt")
    ],
)
def test_the_texts_themselves_give_the_same_subtitles(content, kind):
    found = Subtitles(content, kind)
    assert found.filled(found.texts) == content


def test_a_blank_line_within_a_cue_of_subrip_ends_no_text():
    found = Subtitles(
        "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\nTwo.\n\n2\n00:00:03,000 --> 00:00:04,000\nX.\n", "srt"
    )
    assert found.texts == ["One.", "Two.", "X."]


def test_a_translation_adds_no_cue():
    found = Subtitles("1\n00:00:01,000 --> 00:00:02,000\nOne.\n", "srt")
    assert found.filled(["a\n\nb --> c"]) == "1\n00:00:01,000 --> 00:00:02,000\na b -> c\n"


def cue(text, number=1):
    return f"{number}\n00:00:0{number},000 --> 00:00:0{number},500\n{text}\n"


def test_times_begin_a_cue_without_a_blank_line_before():
    content = cue("One.\nTwo.") + cue("Three.", 2) + cue("4", 3)
    found = Subtitles(content, "srt")
    assert found.texts == ["One. Two.", "Three.", "4"]
    assert found.lines == [3, 7, 10]
    assert found.untimed == []
    assert upper(found) == content.replace("One.", "ONE.").replace("Two", "TWO").replace("Three", "THREE")


@pytest.mark.parametrize(
    "times", ["00:00:03,000 -> 00:00:06,000", "00:00:O3,000 --> 00:00:06,000", "00:00:03,000", "Two."]
)
@pytest.mark.parametrize("blank", ["", "\n"])
def test_what_has_no_times_stays_and_is_named(times, blank):
    if times == "Two." and not blank:
        return  # a text of two lines
    content = f"{cue('One.')}{blank}2\n{times}\nTwo.\n\n{cue('Three.', 3)}"
    found = Subtitles(content, "srt")
    assert found.texts == ["One.", "Three."]
    assert len(found.untimed) == 1
    assert upper(found) == content.replace("One", "ONE").replace("Three", "THREE")


def test_a_file_without_a_cue_has_none():
    for content, kind in (("<p>One.</p>\n", "srt"), ("One.\n\nTwo.\n", "vtt")):
        found = Subtitles(content, kind)
        assert not found.has_cues
        assert found.untimed[0] == 1
    assert not Subtitles("WEBVTT\n\nNOTE none\n", "vtt").untimed


def test_times_of_words_are_left_out_of_what_is_translated():
    content = "WEBVTT\n\n00:01.000 --> 00:02.000\n \none<00:01.500><c> two</c>\n"
    found = Subtitles(content, "vtt", whole=True)
    assert found.texts == ["one two"]
    assert found.drops_times
    assert upper(found) == content.replace("one<00:01.500><c> two", "ONE <c>TWO")


def test_a_dash_begins_what_another_speaker_says():
    assert Subtitles(cue("Is it\nhere?\n- Yes."), "srt").texts == ["Is it here?", "Yes."]


def test_character_references_of_subrip_are_read_and_written_again():
    content = f"{cue('Ham &amp; eggs')}\n{cue('R&B', 2)}"
    found = Subtitles(content, "srt")
    assert found.texts == ["Ham & eggs", "R&B"]
    assert upper(found) == content.replace("Ham", "HAM").replace("eggs", "EGGS")
