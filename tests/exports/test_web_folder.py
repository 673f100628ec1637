"""A folder with a page: its JavaScript gives what the loop in Python gives, and node checks it."""

import dataclasses
import json
import random
import shutil
import subprocess

import onnx
import pytest
from onnx import numpy_helper

import regard
from regard.cli import run
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.errors import RunError, UserError
from regard.exports import onnx_graphs, web_folder, web_process
from regard.exports.certified_export import compared
from regard.exports.onnx_folder import loop_config
from regard.exports.onnx_process import loop_of
from regard.exports.onnx_settings import known
from regard.exports.web_folder import WEB, export_to_web, own_files
from regard.exports.web_node import node
from regard.weights.folder import verify_folder
from tests.exports.engine_models import WORDS, small_model

SEARCHED = """
import { open } from "./open.js";
const model = await open();
const found = [];
for (const { ids, ...others } of GIVEN) found.push(await model.search(ids, others));
console.log(JSON.stringify(found.map(({ ids, score, ended }) => [ids, ended, score])));
"""
CANDIDATES = """
import { topCandidates } from "./arrays.js";
const { totals, logProbs, count } = GIVEN;
const found = topCandidates(totals, logProbs, count);
console.log(JSON.stringify(found.map(({ row, id, total }) => [row, id, total])));
"""
pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(params=["encoder_decoder", "decoder_only"])
def exported(request, page_folder):
    """A small model of each kind, and its page."""
    return page_folder(request.param)


@pytest.fixture
def translator(page_folder):
    """A small encoder-decoder, and its page."""
    return page_folder("encoder_decoder")


def drawn_jobs(count):
    """Searches of any size, length and rules."""
    draw = random.Random(5)
    for _ in range(count):
        size = draw.randint(1, 5)
        ends = draw.sample(range(4, 20), draw.randint(0, 3))
        forced = draw.choice([None, None, 7, *ends])
        never = draw.sample(range(3), draw.randint(0, 3)) + draw.sample(range(4, 20), 2)
        never = [number for number in never if number != forced]
        rules = {"end_ids": ends, "forced_id": forced, "never_ids": never}
        ids = [draw.randrange(4, 20) for _ in range(draw.randint(1, 6))]
        yield {"ids": ids, "size": size, "longest": draw.randint(1, 9), "rules": rules}


def test_the_search_in_javascript_is_that_in_python(exported, run_node):
    _, folder = exported
    script = loop_of(folder)
    model = script.Model(folder, 1)
    jobs = list(drawn_jobs(60))
    theirs = run_node(SEARCHED, jobs, folder)
    assert len({len(ids) for ids, _, _ in theirs}) > 3
    for job, (ids, ended, score) in zip(jobs, theirs, strict=True):
        found = model.search(job["ids"], job["size"], job["longest"], script.Rules(**job["rules"]))
        assert (ids, ended) == (found.ids, found.ended), job
        assert score == pytest.approx(found.score, abs=1e-5)


def test_texts_greatest_lengths_and_the_command_are_those_of_python(exported):
    _, folder = exported
    script = loop_of(folder)
    model = script.Model(folder, 1)
    texts = [" ".join(random.Random(seed).choices(WORDS, k=seed % 5 + 1)) for seed in range(8)]
    assert by_command(folder, *texts) == [model.generate(text) for text in texts]
    odd = [f"  {texts[0]} ", f"\u200b{texts[0]}", " "]
    assert by_command(folder, *odd) == [*map(model.generate, odd[:2]), ""]
    lines = "\n".join([texts[0], "", texts[1]])
    expected = [model.generate(texts[0], 1, 3), "", model.generate(texts[1], 1, 3)]
    assert by_command(folder, "--beam", "1", "--max-new-tokens", "3", given=lines) == expected


def by_command(folder, *arguments, given=""):
    command = [node(), str(folder / "run.js"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def test_a_wrong_argument_of_the_command_is_refused(translator):
    _, folder = translator
    for arguments in (["--beam", "0", "ba"], ["--beam", "x", "ba"], ["--size", "2"]):
        with pytest.raises(subprocess.CalledProcessError) as error:
            by_command(folder, *arguments)
        assert arguments[0] in error.value.stderr


def test_a_text_that_is_too_long_is_refused(exported, run_node, tmp_path):
    _, folder = exported
    shutil.copytree(folder, tmp_path / "short", ignore=shutil.ignore_patterns("__pycache__"))
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "short" / "config.json").write_text(json.dumps({**config, "most_positions": 4}))
    module = """import { open } from "./open.js";
const model = await open();
const why = [];
for (const [text, maxNewTokens] of GIVEN) {
  const found = model.generate(text, { maxNewTokens });
  why.push(await found.then(({ ids }) => ids.length, (error) => error.message));
}
console.log(JSON.stringify(why));"""
    found = run_node(module, [["ba ba ba ba ba", None], ["ba", 9], ["ba", None]], tmp_path / "short")
    assert "the model reads at most 4" in found[0]
    assert found[1].startswith("the model has room for ")
    assert found[2] <= 3


def test_the_best_candidates_come_first_and_of_equal_ones_the_lower_id(run_node):
    draw = random.Random(1)
    table = [[draw.choice([-1.0, -2.0, -3.0, -4.5]) for _ in range(50)] for _ in range(3)]
    totals = [-0.5, -1.5, -0.5]
    everything = [
        (row, number, totals[row] + value)
        for row, values in enumerate(table)
        for number, value in enumerate(values)
    ]
    everything.sort(key=lambda each: (-each[2], each[1], each[0]))
    for count in (1, 2, 7, 150, 200):
        given = {"totals": totals, "logProbs": table, "count": count}
        assert [tuple(each) for each in run_node(CANDIDATES, given)] == everything[:count]


def test_what_is_no_number_is_noticed(run_node):
    module = """import { logSoftmax } from "./arrays.js";
let why; try { logSoftmax(Float32Array.of(1, NaN, 2)); } catch (error) { why = error.message; }
console.log(JSON.stringify([why, Array.from(logSoftmax(Float32Array.of(0, 0)))]));"""
    why, halves = run_node(module)
    assert "not a number" in why
    assert halves == pytest.approx([-0.6931471805599453] * 2, abs=1e-15)


def test_the_export_is_checked_and_a_changed_weight_is_noticed(translator, tmp_path):
    loaded, folder = translator
    found, facts = compared(WEB, loaded, folder, ["ba de", "mi gi"], most_new=3)
    assert not found.failures
    assert found.log_probs.largest_difference < 1e-4
    assert facts["versions"].keys() >= {"onnxruntime-web", "node"}
    assert facts["tokenizers"]["texts_encoded"] > 20
    shutil.copytree(folder, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    graph = onnx.load(tmp_path / "other" / "decoder.onnx")
    weight = next(each for each in graph.graph.initializer if each.data_type == 1 and len(each.dims) == 2)
    values = numpy_helper.to_array(weight).copy()
    values.reshape(-1)[values.size // 2] += 0.5
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(graph, tmp_path / "other" / "decoder.onnx")
    found, _ = compared(WEB, loaded, tmp_path / "other", ["ba de"], most_new=3)
    assert found.failures


@pytest.mark.parametrize(
    ("old", "new", "does"),
    [("text ? part.prepend", "text[9] ? part.prepend", "encodes"), ('join("")]', 'join("~")]', "decodes")],
)
def test_another_tokeniser_is_noticed(translator, tmp_path, old, new, does):
    loaded, folder = translator
    shutil.copytree(folder, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    parts = tmp_path / "other" / "tokenizer_parts.js"
    assert old in parts.read_text()
    parts.write_text(parts.read_text().replace(old, new))
    with pytest.raises(SystemExit, match=rf"the tokeniser in JavaScript {does}"):
        compared(WEB, loaded, tmp_path / "other", ["ba de"], most_new=1, compute=web_process.answer)


def test_a_pretrained_tokeniser_puts_its_prefix_before_each_text(translator, tmp_path):
    """And spells none of its special tokens, which become unknown."""
    loaded, folder = translator
    own = loaded.tokenizers.source
    special = SpecialTokens(
        pad=0, unk=1, bos=2, eos=3, vocab_size=own.vocab_size, prefix=(5,), languages=(5, 6)
    )
    content = with_special_tokens(json.loads(own.to_bytes()), special)
    text = Tokenizer.from_bytes(json.dumps(content).encode())
    changed = dataclasses.replace(loaded, tokenizer_pair=TokenizerPair(text, text))
    shutil.copytree(folder, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "other" / "tokenizer.json").write_bytes(text.to_bytes())
    config = web_folder.page_config(changed, tmp_path / "other", loop_config(changed, known(changed.config)))
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    assert config["source"]["first_ids"] == [5]
    assert {5, 6} <= {*config["source"]["unknown_ids"]}
    texts = [*WORDS[:6], "ba de"]
    assert text.encode(text.decode([7])) == [5, 7]
    assert any(1 in text.encode(each) for each in texts)  # the spelling of 5 or 6
    found, _ = compared(WEB, changed, tmp_path / "other", texts, most_new=2, compute=web_process.answer)
    assert not found.failures


def test_a_graph_that_does_not_load_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(web_folder, "save_without_loop", damaged)
    with pytest.raises(RunError, match=r"a web page cannot run the export: \w*Error: "):
        export_to_web(small_model("decoder_only"), tmp_path / "out", texts=["ba de"])
    assert not [*tmp_path.iterdir()]


def damaged(loaded, folder, quantization):
    (folder / "decoder.onnx").write_bytes(b"no graph")
    for name, content in loaded.tokenizers.files().items():
        (folder / name).write_bytes(content)


def test_a_model_for_which_a_page_is_too_small_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graphs, "MAX_EMBEDDED_BYTES", 0)
    with pytest.raises(UserError, match=r"a web page cannot compute weights = 'more than 1.5 GB"):
        export_to_web(small_model("decoder_only", "llama"), tmp_path / "out", texts=["ba de"])


def test_the_command_writes_a_page(decoder_folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["export", str(decoder_folder()), "--to", "web", "--out", str(out)]) == 0
    assert "greedy 100.0% equal, beam 5 100.0% equal" in capsys.readouterr().err
    verify_folder(out)
    certificate = json.loads((out / "CERTIFICATE.json").read_text("utf-8"))
    assert certificate["passed"]
    assert certificate["files"].keys() == {*own_files(), "config.json", "decoder.onnx", "tokenizer.json",
                                           "onnxruntime-web.js", "onnxruntime-web.wasm"}  # fmt: skip
    assert run(["generate", "1 2", "--model", str(out)]) == 2
    assert "is an export for another engine" in capsys.readouterr().err
    [text] = by_command(out, "To be", "--max-new-tokens", "5")
    assert text == regard.generate("To be", model=decoder_folder(), beam_size=1, max_new_tokens=5)
    assert all(str(web_folder.FILES.parent).encode() not in path.read_bytes() for path in out.iterdir())


@pytest.mark.parametrize(("options", "name"), [(["--one-file"], "one_file"), (["--runtime", "x"], "runtime")])
def test_options_of_a_page_are_refused_for_other_engines(options, name, tmp_path, capsys):
    assert run(["export", "en-de", "--to", "onnx", "--out", str(tmp_path / "out"), *options]) == 2
    assert f"error: {name} is an option of to = 'web', not of to = 'onnx'" in capsys.readouterr().err


def test_node_is_asked_for_first(tmp_path, monkeypatch):
    def missing():
        raise UserError("no node", "install it")

    monkeypatch.setattr(web_folder, "node", missing)
    with pytest.raises(UserError, match="no node"):
        export_to_web(small_model("decoder_only"), tmp_path / "out")
    assert web_process.SCRIPT.exists()
