"""Several models: found by name, loaded when needed, unloaded by a budget, reloaded."""

import asyncio
import shutil
import threading
import time
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.metrics import Metrics
from regard.serving.models import ModelStore, Slot, named_paths
from tests.serving.asking import ask, post
from tests.serving.made_models import MadeModel, Runner


def test_models_are_named(tmp_path, monkeypatch):
    assert named_paths([]) == {"en-de": None}
    found = named_paths(["en-de=runs/a", "runs/chat"])
    assert {name: str(path) for name, path in found.items()} == {"en-de": "runs/a", "chat": "runs/chat"}
    (tmp_path / "v1").mkdir()
    (tmp_path / "prod").symlink_to(tmp_path / "v1")
    monkeypatch.chdir(tmp_path / "prod")
    assert [*named_paths(["."])] == ["v1"]
    assert [*named_paths([str(tmp_path / "prod")])] == ["prod"]  # clients know the link
    for wrong in (["a b=x"], ["x=1", "x=2"], ["=x"], ["/"]):
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


@pytest.mark.parametrize(
    ("name", "languages"),
    [("en-de", ("en", "de")), ("eng-deu", ("eng", "deu")), ("en-de.v2", ("en", "de")),
     ("en-de-big", ("en", "de")), ("en-dex", ("en", "dex")), ("e-de", None), ("en-deux", None),
     ("EN-DE", None), ("chat", None)],
)  # fmt: skip
def test_a_name_says_the_languages(name, languages):
    assert Slot(name=name, path=None).languages == languages


def test_a_name_has_at_most_64_characters():
    assert named_paths(["a" * 64 + "=x"]) == {"a" * 64: Path("x")}
    with pytest.raises(UserError, match="is not a name"):
        named_paths(["a" * 65 + "=x"])


class Store:
    """Models of these sizes, loaded when they are asked for; `broken` ones cannot be."""

    def __init__(self, budget=None, **sizes):
        self.loads, self.broken, self.metrics = [], set(), Metrics()
        paths = {name: Path(name) for name in sizes}

        def load(path, observer):
            self.loads.append(path.name)
            if path.name in self.broken:
                raise ValueError("a secret")
            return Engine(MadeModel(size=sizes[path.name]), Runner())

        self.store = ModelStore(paths, load, metrics=self.metrics, budget_bytes=budget)
        self.slots = self.store.slots

    def use(self, *names):
        for name in names:
            asyncio.run(self.store.engine(self.slots[name]))

    @property
    def loaded(self):
        return [name for name, slot in self.slots.items() if slot.engine is not None]

    def metric(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"regard_{name}", labels)


def test_models_fill_the_budget_and_the_least_recently_used_one_makes_room():
    models = Store(budget=30, a=10, b=20, c=10)
    models.use("a", "b")
    assert (models.loaded, models.metric("loaded_model_bytes")) == (["a", "b"], 30.0)
    models.use("a")
    runner = models.slots["b"].engine.runner
    models.use("c")
    assert (models.loaded, models.metric("loaded_model_bytes")) == (["a", "c"], 20.0)
    assert (runner.calls, models.loads) == (["close"], ["a", "b", "c"])
    assert models.metric("model_unloads_total", model="b") == 1.0
    assert models.metric("model_unloads_total", model="a") is None


def test_a_busy_model_and_the_one_that_is_asked_for_stay_beyond_the_budget():
    models = Store(budget=5, a=10, b=10, c=10)
    models.use("a")
    assert models.loaded == ["a"]
    models.slots["a"].engine.runner.busy = True
    models.use("b", "c")
    assert models.loaded == ["a", "c"]
    without = Store(a=10**15, b=10**15)
    without.use("a", "b")
    assert without.loaded == ["a", "b"]


def test_a_model_that_is_larger_than_the_budget_is_served_with_a_warning(capsys):
    models = Store(budget=5, a=10, b=5)
    models.use("b")
    assert "more than --memory" not in capsys.readouterr().err
    models.use("a")
    assert "a alone has" in (said := capsys.readouterr().err)
    assert "it is served all the same" in said
    models.slots["a"].engine = None
    models.use("a")
    assert "a alone has" not in capsys.readouterr().err, "it is reported once"


def test_a_model_is_loaded_once_though_two_requests_ask_for_it():
    models = Store(a=1)

    async def both():
        slot = models.slots["a"]
        return await asyncio.gather(models.store.engine(slot), models.store.engine(slot))

    one, other = asyncio.run(both())
    assert one is other
    assert (models.loads, models.metric("model_loads_total", model="a")) == (["a"], 1.0)


def test_only_loaded_models_are_reloaded_ended_and_waited_for(capsys):
    models = Store(a=1, b=1, c=1)
    assert not models.store.busy
    models.use("a", "b")
    old = [models.slots[name].engine for name in "ab"]
    models.broken.add("b")
    asyncio.run(models.store.reload())
    new = [models.slots[name].engine for name in "ab"]
    assert (new[0] is old[0], new[1] is old[1], models.loaded) == (False, True, ["a", "b"])
    assert (old[0].runner.calls, old[1].runner.calls) == (["close"], [])
    said = capsys.readouterr().err
    assert "b keeps its weights" in said
    assert "a is reloaded" in said
    assert models.metric("model_loads_total", model="b") == 1.0, "a load that fails is none"
    new[1].runner.busy = True
    assert models.store.busy
    models.store.abort()
    models.store.close()
    assert [each.runner.calls for each in new] == [["abort", "close"]] * 2


def test_a_reload_keeps_the_budget_and_may_find_its_model_unloaded():
    models = Store(budget=10, a=10)
    models.use("a")
    load = models.store._load

    def unloading(path, observer):
        models.slots["a"].engine = None
        return load(path, observer)

    models.store._load = unloading
    asyncio.run(models.store.reload())
    assert models.loaded == ["a"]
    models.slots["b"] = Slot(name="b", path=None, engine=Engine(MadeModel(size=1), Runner()))
    models.store._load = load
    asyncio.run(models.store.reload())
    assert models.loaded == ["a"]


def test_a_model_that_cannot_be_loaded_is_unavailable_for_a_while_and_says_no_secret(capsys):
    models = Store(a=1)
    models.broken.add("a")
    with pytest.raises(HttpProblem, match="the model a cannot be loaded") as refused:
        models.use("a")
    found = refused.value
    assert (found.status, found.code, found.retry_after) == (503, "model_unavailable", 30)
    assert "secret" not in found.text
    assert "a cannot be loaded: a secret" in capsys.readouterr().err, "the log has the reason"


def test_a_model_that_is_not_there_is_named_and_without_a_name_it_is_the_first():
    store = Store(first=1, second=1).store
    assert store.slot(None) is store.default is store.slots["first"]
    assert store.slot("second").name == "second"
    with pytest.raises(HttpProblem, match="there is no model 'secand'") as refused:
        store.slot("secand")
    found = refused.value
    assert (found.status, found.code, found.parameter) == (404, "model_not_found", "model")
    assert "second" in found.hint
    with pytest.raises(HttpProblem) as refused:
        store.slot("x" * 1000)
    assert len(refused.value.message) < 130
