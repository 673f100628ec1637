"""Several models: found by name, loaded when needed, unloaded by a budget, reloaded."""

import shutil
import threading
import time

import pytest

from regard.errors import UserError
from regard.serving.models import named_paths
from tests.serving.asking import ask, post


def test_models_are_named():
    assert named_paths([]) == {"en-de": None}
    found = named_paths(["en-de=runs/a", "runs/chat"])
    assert {name: str(path) for name, path in found.items()} == {"en-de": "runs/a", "chat": "runs/chat"}
    for wrong in (["a b=x"], ["x=1", "x=2"], ["=x"], ["../.."]):
        with pytest.raises(UserError):
            named_paths(wrong)


def loaded(server):
    return [each["name"] for each in ask(server, "GET", "/api/v1/models").json["models"] if each["loaded"]]


def test_a_lazy_model_is_loaded_when_it_is_asked_for(serving, untrained, decoder_folder):
    server = serving({"digits": untrained, "chars": decoder_folder()}, lazy=True)
    assert loaded(server) == []
    assert ask(server, "GET", "/health/ready").status == 200  # or a probe would never let a request in
    assert post(server, "/api/v1/generate", {"prompt": "a", "model": "chars"}).status == 200
    assert loaded(server) == ["chars"]


def test_the_least_recently_used_model_leaves(serving, untrained, tmp_path):
    copies = {}
    for name in ("one", "two", "three"):
        copies[name] = shutil.copytree(untrained, tmp_path / name)
    server = serving(copies, lazy=True)
    for name in copies:
        assert post(server, "/api/v1/translate", {"text": "1", "model": name}).status == 200
    server.service.models.budget_bytes = 2 * server.service.models.default.engine.model.bytes
    post(server, "/api/v1/translate", {"text": "1", "model": "one"})
    server.service.models.slots["one"].engine.runner.close()
    server.service.models.slots["one"].engine = None
    post(server, "/api/v1/translate", {"text": "1", "model": "one"})
    assert loaded(server) == ["one", "three"]


def test_a_reload_changes_the_weights_and_drops_nothing(serving, untrained, decoder_folder, tmp_path):
    folder = shutil.copytree(untrained, tmp_path / "model")
    server = serving({"digits": folder})
    before = server.service.models.default.engine
    statuses, stop = [], threading.Event()

    def asking():
        while not stop.is_set():
            statuses.append(post(server, "/api/v1/translate", {"text": "1 2 3"}).status)

    threads = [threading.Thread(target=asking) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(3):
        engine = server.service.models.default.engine
        server.loop.call_soon_threadsafe(server.server.reload)
        ends = time.monotonic() + 20
        while server.service.models.default.engine is engine and time.monotonic() < ends:
            time.sleep(0.01)
    stop.set()
    for each in threads:
        each.join()
    assert set(statuses) == {200}
    assert server.service.models.default.engine is not before


def test_a_model_that_cannot_be_loaded_again_keeps_its_weights(serving, untrained, tmp_path):
    folder = shutil.copytree(untrained, tmp_path / "model")
    server = serving({"digits": folder})
    wanted = post(server, "/api/v1/translate", {"text": "1 2 3"}).json
    (folder / "model.safetensors").write_bytes(b"damaged")
    engine = server.service.models.default.engine
    done = threading.Event()

    async def reload():
        await server.service.models.reload()
        done.set()

    import asyncio

    asyncio.run_coroutine_threadsafe(reload(), server.loop)
    assert done.wait(20)
    assert server.service.models.default.engine is engine
    assert post(server, "/api/v1/translate", {"text": "1 2 3"}).json == wanted


def test_a_damaged_model_is_unavailable_and_the_server_lives(serving, untrained, tmp_path):
    folder = shutil.copytree(untrained, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"damaged")
    server = serving({"digits": untrained, "damaged": folder}, lazy=True)
    answer = post(server, "/api/v1/translate", {"text": "1", "model": "damaged"})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    assert str(folder) not in answer.content.decode()
    assert post(server, "/api/v1/translate", {"text": "1", "model": "digits"}).status == 200
