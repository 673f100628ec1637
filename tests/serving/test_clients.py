"""Clients that we did not write, as programs: schemathesis and llm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.asking import ask

BIN = Path(sys.executable).parent
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def run(command, folder, **environment):
    whole = {**os.environ, "no_proxy": "127.0.0.1", "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=whole, timeout=300)


def test_requests_made_up_from_the_openapi_document_get_the_answers_that_it_names(included, tmp_path):
    if not (BIN / "schemathesis").exists():
        pytest.skip("schemathesis is not installed")
    command = [
        *(str(BIN / "schemathesis"), "run", f"{included.url}/openapi.json", "--phases", "fuzzing"),
        *("--max-examples", "3", "--generation-database", "none", "--seed", "1", "--checks", CHECKS),
    ]
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"[1-9]\d* generated, [1-9]\d* passed", done.stdout)


def test_the_document_names_every_operation(included):
    paths = ask(included, "GET", "/openapi.json").json["paths"]
    assert {"/api/v1/translate", "/v1/chat/completions", "/translate", "/v2/translate", "/metrics"} <= set(
        paths
    )
    fields = ask(included, "GET", "/openapi.json").json["components"]["schemas"]["TranslateRequest"][
        "properties"
    ]
    assert fields["beam_size"]["anyOf"][0]["maximum"] == 1000
    assert "draft_model" not in fields


def test_llm_asks_an_openai_endpoint(included, tmp_path):
    if not (BIN / "llm").exists():
        pytest.skip("llm is not installed")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: ours\n  model_name: en-de\n  api_base: {included.url}/v1\n"
    )
    for more in ([], ["--no-stream"]):
        command = [str(BIN / "llm"), "-m", "ours", "--no-log", *more, "Where is the station?"]
        done = run(command, tmp_path, LLM_USER_PATH=str(tmp_path), OPENAI_API_KEY="none")
        assert done.stdout.strip() == "Wo ist der Bahnhof?", done.stderr[-2000:]


def test_the_document_has_the_fields_of_addresses(included):
    paths = ask(included, "GET", "/openapi.json").json["paths"]
    entries = paths["/v3/glossaries/{name}/entries"]["get"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in entries] == [
        ("name", "path", True),
        ("source_lang", "query", False),
        ("target_lang", "query", False),
    ]
    assert list(paths["/v2/glossaries"]["post"]["responses"])[:1] == ["201"]
    assert "content" not in paths["/v2/glossaries/{name}"]["delete"]["responses"]["204"]
