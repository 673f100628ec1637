"""Segments of a transcript -> subtitles: SubRip (.srt) and WebVTT (.vtt)."""

from collections.abc import Sequence

from regard.verbs.generation.transcripts import TranscriptSegment
from regard.verbs.shared.text_options import SubtitleFormat


def subtitles(segments: Sequence[TranscriptSegment], subtitle_format: SubtitleFormat) -> str:
    """The subtitles of all segments with a text; without a final blank line."""
    point = "," if subtitle_format == "srt" else "."
    cues = [
        f"{time(each.start, point)} --> {time(each.end, point)}\n{_line(each.text)}\n"
        for each in segments
        if each.text
    ]
    if subtitle_format == "vtt":
        return "\n".join(["WEBVTT\n", *cues])
    return "\n".join(f"{number}\n{cue}" for number, cue in enumerate(cues, start=1))


def time(seconds: float, point: str) -> str:
    """A time with hours and milliseconds: 01:02:03,500."""
    whole = round(seconds * 1000)
    minutes, milliseconds = divmod(whole, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"


def _line(text: str) -> str:
    """A text in which nothing ends a cue or begins its times: no blank line, no arrow."""
    return " ".join(text.split()).replace("-->", "->")
