"""Clients that we did not write, as programs: schemathesis and llm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.verbs.shared.included_models import included_model
from tests.serving.asking import ask
from tests.serving.made_up import SCHEMATHESIS, made_up_requests

BIN = Path(sys.executable).parent
REACHED = {  # routes of every dialect that a model answers
    *(f"/api/v1/{verb}" for verb in ("translate", "generate", "embed", "classify", "tag", "fill", "score")),
    *("/v1/completions", "/v1/embeddings"),
    *("/translate", "/detect", "/translate_file"),
    *("/v2/translate", "/v2/document", "/v3/glossaries"),
}


def run(command, folder, **environment):
    whole = {**os.environ, "no_proxy": "127.0.0.1", "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=whole, timeout=300)


def test_requests_made_up_from_the_openapi_document_get_the_answers_that_it_names(
    serving, decoder_folder, encoder_folder, tmp_path
):
    if not SCHEMATHESIS.exists():
        pytest.skip("schemathesis is not installed")
    vectors = encoder_folder("classification", ("a", "b"))
    tags, masks = encoder_folder("tokens", ("a", "b")), encoder_folder("masked_language_model")
    models = {"chars": decoder_folder(), "vectors": vectors, "tags": tags, "masks": masks}
    server = serving({"en-de": included_model(), **models})
    assert made_up_requests(server.url, tmp_path, most=5, seed=1) > 120
    metrics = ask(server, "GET", "/metrics").content.decode()
    answered = set(re.findall(r'regard_requests_total{route="(\S+)",status="20[01]"}', metrics))
    assert answered >= REACHED


@pytest.mark.nightly  # it is OpenAI's client, which asks in tests/serving/dialects/test_openai.py
@pytest.mark.parametrize("more", [[], ["--no-stream"]], ids=str)
def test_llm_asks_an_openai_endpoint(included, tmp_path, more):
    if not (BIN / "llm").exists():
        pytest.skip("llm is not installed")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: ours\n  model_name: en-de\n  api_base: {included.url}/v1\n"
    )
    command = [str(BIN / "llm"), "-m", "ours", "--no-log", *more, "Where is the station?"]
    done = run(command, tmp_path, LLM_USER_PATH=str(tmp_path), OPENAI_API_KEY="none")
    assert done.stdout.strip() == "Wo ist der Bahnhof?", done.stderr[-2000:]
