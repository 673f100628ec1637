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
