"""Subtitles as players read them: numbers and times of each segment that has a text."""

import re

import pytest

from regard.verbs.generation.subtitles import subtitles, time
from regard.verbs.generation.transcripts import TranscriptSegment

SEGMENTS = (
    TranscriptSegment(start=0.0, end=7.9996, text="Ask not"),
    TranscriptSegment(start=8.0, end=9.0, text=""),
    TranscriptSegment(start=3599.5, end=3661.25, text="what --> your\n\ncountry"),
)


def test_a_subrip_file_numbers_its_segments_and_has_a_comma_before_milliseconds():
    assert subtitles(SEGMENTS, "srt") == (
        "1\n00:00:00,000 --> 00:00:08,000\nAsk not\n"
        "\n"
        "2\n00:59:59,500 --> 01:01:01,250\nwhat -> your country\n"
    )


def test_a_webvtt_file_begins_with_its_name_and_has_a_point_before_milliseconds():
    assert subtitles(SEGMENTS, "vtt") == (
        "WEBVTT\n"
        "\n"
        "00:00:00.000 --> 00:00:08.000\nAsk not\n"
        "\n"
        "00:59:59.500 --> 01:01:01.250\nwhat -> your country\n"
    )


def test_without_segments_there_are_no_subtitles():
    assert subtitles((), "srt") == ""
    assert subtitles((), "vtt") == "WEBVTT\n"


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 0.9996, 59.9999, 3599.9999, 359999.5])
def test_no_part_of_a_time_overflows(seconds):
    hours, minutes, rest, milliseconds = map(int, re.split("[:,]", time(seconds, ",")))
    assert minutes < 60
    assert rest < 60
    assert 3600 * hours + 60 * minutes + rest + milliseconds / 1000 == pytest.approx(seconds, abs=6e-4)
