"""Speech in OpenAI's dialect, asked by OpenAI's own client: what it answers is what `Transcriber` gives."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import openai
import pytest

from regard.errors import ConfigError, DataError
from regard.serving.dialects.openai_audio import AUDIO_ROUTES, _route, transcriptions
from regard.verbs.generation.subtitles import subtitles
from regard.verbs.serve import ServedModel
from regard.verbs.shared.answerer import AnswerSettings, Recording
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.transcribe import Transcriber
from tests.nightly import nightly_but
from tests.serving.asking import ask, recorded
from tests.whisper_folder import RATE, noise, whisper

PATH = "/v1/audio/transcriptions"
SOUND = noise(1.6)
TRANSLATIONS = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by the client alone


@pytest.fixture(scope="module")
def client(transcribing):
    with openai.OpenAI(base_url=f"{transcribing.url}/v1", api_key="none", max_retries=0) as found:
        yield found


@cache
def expected(folder, **options):
    [found] = Transcriber(folder, **options)([SOUND])
    return found


def refused(client, *, file=None, **fields):
    with pytest.raises(openai.APIStatusError) as caught:
        client.audio.transcriptions.create(file=file or recorded(), model="whisper", **fields)
    return caught.value


def test_a_recording_gives_the_text_that_regard_transcribes(client, speech_folder):
    found = client.audio.transcriptions.create(file=recorded(), model="whisper", language="de")
    assert found.text == expected(speech_folder, language="de", task="transcribe").text != ""
    assert found.usage.type == "duration"
    assert found.usage.seconds == 2


@TRANSLATIONS
def test_a_translation_is_asked_for_by_another_path(client, speech_folder):
    found = client.audio.translations.create(file=recorded(), model="whisper")
    assert found.text == expected(speech_folder, task="translate").text
    assert found.text != expected(speech_folder, task="transcribe").text


def test_the_verbose_form_has_language_duration_and_segments(client, speech_folder):
    found = client.audio.transcriptions.create(
        file=recorded(), model="whisper", response_format="verbose_json", timestamp_granularities=["segment"]
    )
    whole = expected(speech_folder, task="transcribe", timestamps=True)
    assert (found.text, found.language, found.duration) == (whole.text, whole.language, 1.6)
    assert [(each.start, each.end, each.text) for each in found.segments] == [
        (round(each.start, 2), round(each.end, 2), each.text) for each in whole.segments
    ]
    assert len(found.segments) > 1


@pytest.mark.parametrize("form", nightly_but(["srt", "vtt"], "srt"))
def test_subtitles_are_those_of_the_segments(client, speech_folder, form):
    found = client.audio.transcriptions.create(file=recorded(), model="whisper", response_format=form)
    assert found == subtitles(expected(speech_folder, task="transcribe", timestamps=True).segments, form)


def test_a_text_is_plain(client, speech_folder):
    found = client.audio.transcriptions.create(file=recorded(), model="whisper", response_format="text")
    assert found == expected(speech_folder, task="transcribe").text + "\n"


def test_the_same_recording_at_another_rate_is_resampled(client):
    found = client.audio.transcriptions.create(
        file=recorded(np.repeat(SOUND, 2)[:-90], 2 * RATE), model="whisper", response_format="verbose_json"
    )
    assert found.duration == 1.6, "in hundredths"


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"prompt": "before"}, "prompt"),
        ({"temperature": 0.7}, "temperature"),
        ({"temperature": 1}, "temperature"),
        ({"stream": True}, "stream"),
        ({"include": ["logprobs"]}, "include[]"),
        ({"chunking_strategy": "auto"}, "chunking_strategy"),
        ({"timestamp_granularities": ["segment"]}, "timestamp_granularities[]"),
        (
            {"timestamp_granularities": ["word"], "response_format": "verbose_json"},
            "timestamp_granularities[]",
        ),
        ({"response_format": "diarized_json"}, "response_format"),
        ({"extra_body": {"speed": "2"}}, "speed"),
        ({"extra_body": {"temperature": "nan"}}, "temperature"),
    ],
)
def test_a_field_that_is_not_honoured_is_refused_by_its_name(client, fields, parameter):
    problem = refused(client, **fields)
    assert problem.status_code == 400
    assert problem.param == parameter


def test_a_temperature_is_a_number(client):
    assert "temperature must be a number" in refused(client, extra_body={"temperature": "abc"}).message


def test_neutral_values_are_accepted(client):
    found = client.audio.transcriptions.create(
        file=recorded(), model="whisper", temperature=0, prompt="", stream=False, response_format="json"
    )
    assert found.text
    for more in (
        {"stream": "False"},
        *({"temperature": zero} for zero in ("0.00", "-0", "0e0")),
        {"timestamp_granularities": ["", "segment"]},
    ):
        found = client.audio.transcriptions.create(
            file=recorded(), model="whisper", response_format="verbose_json", extra_body=more
        )
        assert found.text


def test_what_is_no_sound_or_too_much_of_it_is_refused(client):
    for content, message in ((b"RIFF", "speech.wav"), (b"\0\0\0\x20ftypM4A ", "not a WAV, FLAC, MP3 or Ogg")):
        problem = refused(client, file=("speech.wav", content))
        assert problem.status_code == 400
        assert message in problem.message
    problem = refused(client, file=recorded(np.zeros(31 * RATE, np.float32)))
    assert problem.status_code == 400
    assert "speech.wav: the sound is longer than 30 seconds" in problem.message
    assert refused(client, language="klingon").status_code == 400


def test_an_upload_has_a_limit_of_its_own(serving, speech_folder):
    small = serving({"whisper": speech_folder}, limits={"recording_bytes": 50_000})
    with openai.OpenAI(base_url=f"{small.url}/v1", api_key="none", max_retries=0) as client:
        assert refused(client).status_code == 413
        assert client.audio.transcriptions.create(file=recorded(SOUND[:8000]), model="whisper")


def test_models_of_other_tasks_refuse_sound_and_this_one_refuses_texts(included, transcribing, client):
    with (
        openai.OpenAI(base_url=f"{included.url}/v1", api_key="none", max_retries=0) as other,
        pytest.raises(openai.BadRequestError, match="does not transcribe"),
    ):
        other.audio.transcriptions.create(file=recorded(), model="en-de")
    for call in (
        lambda: client.completions.create(model="whisper", prompt="a"),
        lambda: client.embeddings.create(model="whisper", input="a"),
    ):
        with pytest.raises(openai.BadRequestError, match="it can transcribe"):
            call()
    missing = ask(
        transcribing,
        "POST",
        PATH,
        raw=b"model=whisper",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert missing.status == 400
    assert missing.json["error"]["param"] == "file"


@TRANSLATIONS
def test_a_model_of_one_language_transcribes(serving, tmp_path):
    generation = {"is_multilingual": False, "lang_to_id": None, "task_to_id": None}
    whisper(tmp_path, generation=generation)
    one = serving({"whisper": tmp_path})
    with openai.OpenAI(base_url=f"{one.url}/v1", api_key="none", max_retries=0) as client:
        assert (
            client.audio.transcriptions.create(file=recorded(), model="whisper").text
            == expected(tmp_path).text
        )
        with pytest.raises(openai.BadRequestError, match="task"):
            client.audio.translations.create(file=recorded(), model="whisper")


def test_without_its_library_compressed_sound_is_not_possible_here(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    problem = refused(client, file=("speech.flac", b"fLaC"))
    assert problem.status_code == 501
    assert "pip" not in problem.message


def test_two_workers_transcribe_as_one(serving, speech_folder):
    both = serving({"whisper": speech_folder}, workers=2)
    with openai.OpenAI(base_url=f"{both.url}/v1", api_key="none", max_retries=0) as asked:

        def text(_):
            return asked.audio.transcriptions.create(file=recorded(), model="whisper").text

        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(text, range(4)))
    assert found == {expected(speech_folder, task="transcribe").text}


def test_a_recording_of_another_rate_than_the_model_reads_is_refused(speech_folder):
    answerer = ServedModel(speech_folder).answerer(AnswerSettings(task="transcribe"))
    with pytest.raises(DataError, match="another sampling rate"):
        answerer.pieces([Recording(SOUND, 8000)])


def test_a_precision_for_texts_is_refused(speech_folder):
    with pytest.raises(ConfigError, match="bfloat16 is for models of texts"):
        ServedModel(speech_folder, DecodingRuntime(precision="bfloat16"))


def test_a_model_without_a_look_names_no_page_of_it(transcribing):
    [model] = ask(transcribing, "GET", "/api/v1/models").json["models"]
    assert model["tasks"] == ["transcribe"]
    assert model["look"] is None


def test_no_recording_is_in_the_log(transcribing, client):
    client.audio.transcriptions.create(
        file=recorded(), model="whisper", extra_headers={"X-Request-Id": "spoken"}
    )
    line = transcribing.log.wait_for('"spoken"')
    assert '"texts": 1' in line
    assert '"content"' not in line


def test_a_route_of_recordings_takes_forms_and_may_lack_a_library():
    for route in (_route("/a", transcriptions, "It."), *AUDIO_ROUTES):
        assert (route.method, route.form, route.texts, route.statuses) == (
            "POST", True, ("text/plain",), (501,),
        )  # fmt: skip
