"""The page's arithmetic, in node: arrays, numbers, colours, sampling, tables as CSV."""

import json

import numpy as np
import pytest
import torch

from regard.decoding.sampling import Temperature, TopK, TopP

READ = 'import { readFileSync } from "node:fs";\nimport { parseNpy } from "./npy.js";\n'
READ += "const bytes = readFileSync(process.argv[2]);\n"


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int32"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 4), (0, 5), ()])
def test_an_array_arrives_as_it_was_sent(javascript, tmp_path, dtype, shape):
    array = np.random.default_rng(0).normal(size=shape) * 100
    array = np.abs(array).astype(dtype) if dtype == "uint8" else np.asarray(array).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    read = javascript(
        READ + "const { data, shape, dtype } = parseNpy(bytes);\n"
        "console.log(JSON.stringify({ data: [...data], shape, dtype }));",
        str(tmp_path / "a.npy"),
    )
    assert (read["shape"], read["dtype"]) == (list(shape), dtype)
    np.testing.assert_array_equal(np.array(read["data"], dtype).reshape(shape), array)


def test_each_half_float_is_read_rightly(javascript, tmp_path):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    np.save(tmp_path / "a.npy", finite)
    read = javascript(
        READ + "console.log(JSON.stringify([...parseNpy(bytes).data]));",
        str(tmp_path / "a.npy"),
    )
    np.testing.assert_array_equal(np.array(read, np.float32), finite.astype(np.float32))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no array at all", b"\x93NUMPY\x01\x00"])
def test_what_is_no_array_is_refused(javascript, tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    said = javascript(
        READ + "let said = null;\ntry { parseNpy(bytes); } catch (problem) { said = problem.name; }\n"
        "console.log(JSON.stringify(said));",
        str(tmp_path / "a.npy"),
    )
    assert said in ("TypeError", "RangeError")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.3},
        {"temperature": 4.0},
        {"k": 5},
        {"p": 0.7},
        {"p": 0.05},
        {"temperature": 2.0, "k": 8, "p": 0.6},
    ],
)
def test_the_sliders_reshape_as_the_sampler_does(javascript, settings):
    logits = torch.randn(1, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits = logits.sort(descending=True).values
    expected = logits
    for name, kind, key in [("temperature", Temperature, "temperature"), ("k", TopK, "k"), ("p", TopP, "p")]:
        if name in settings:
            expected = kind(**{key: settings[name]})(expected)
    expected = expected.softmax(dim=1)[0]
    found = javascript(
        'import { reshaped } from "./views/distribution.js";\n'
        "const [logits, settings] = process.argv.slice(2).map((text) => JSON.parse(text));\n"
        "const { probabilities, count, entropy } = reshaped(logits, settings);\n"
        "console.log(JSON.stringify({ probabilities: [...probabilities], count, entropy }));",
        json.dumps(logits[0].tolist()),
        json.dumps(settings),
    )
    np.testing.assert_allclose(found["probabilities"], expected.numpy(), atol=1e-12)
    assert found["count"] == int((expected > 0).sum())
    assert found["entropy"] == pytest.approx(float(torch.distributions.Categorical(expected).entropy()))


@pytest.mark.parametrize("settings", [{}, {"p": 0.5}, {"p": 0.98}, {"k": 10, "temperature": 3.0}])
def test_logits_that_were_not_returned_are_counted(javascript, settings):
    logits = torch.randn(1, 500, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    logits = logits.sort(descending=True).values
    expected = logits
    for name, kind, key in [("temperature", Temperature, "temperature"), ("k", TopK, "k"), ("p", TopP, "p")]:
        if name in settings:
            expected = kind(**{key: settings[name]})(expected)
    expected = expected.softmax(dim=1)[0, :100]
    found = javascript(
        'import { massBeyond, reshaped } from "./views/distribution.js";\n'
        "const [logits, settings, best] = process.argv.slice(2).map((text) => JSON.parse(text));\n"
        "const rest = { count: 400, mass: massBeyond(logits, best) };\n"
        "const { probabilities, rest: beyond } = reshaped(logits, settings, rest);\n"
        "console.log(JSON.stringify({ probabilities: [...probabilities], beyond }));",
        json.dumps(logits[0, :100].tolist()),
        json.dumps(settings),
        json.dumps(float(logits.log_softmax(dim=1)[0, 0])),
    )
    # What top-p cuts among those not returned is not known: they stay or go together.
    share = sum(found["probabilities"]) + found["beyond"]
    assert share == pytest.approx(1)
    if settings.get("p") != 0.98:
        np.testing.assert_allclose(found["probabilities"], expected.numpy(), atol=1e-12)


def test_colours_stand_out_and_scales_run_in_lightness(javascript):
    found = javascript(
        """
        import { HEAD_COLOURS, PAPER, contrast, diverging, inkOn, sequential } from "./colour.js";
        const steps = Array.from({ length: 65 }, (_, i) => i / 64);
        const of = (paper) => ({
          heads: HEAD_COLOURS[paper].map((colour) => contrast(colour, PAPER[paper])),
          scale: steps.map((value) => contrast(sequential(value, paper), PAPER[paper])),
          inks: steps.flatMap((value) => [sequential(value, paper), diverging(2 * value - 1, paper)])
            .map((colour) => contrast(colour, inkOn(colour))),
        });
        console.log(JSON.stringify({ light: of("light"), dark: of("dark") }));
        """
    )
    for paper in ("light", "dark"):
        assert len(found[paper]["heads"]) >= 8
        assert min(found[paper]["heads"]) >= 3
        assert min(found[paper]["inks"]) >= 4.5
        assert found[paper]["scale"] == sorted(found[paper]["scale"])


def test_no_character_of_a_token_is_invisible(javascript):
    texts = ["\u202eevil", " a b ", "", "\x00\x07", "\ud800", "a\u200bb", "<b>", "\u200d", "a\nb"]
    found = javascript(
        'import { visible } from "./tokens.js";\n'
        "console.log(JSON.stringify(JSON.parse(process.argv[2]).map(visible)));",
        json.dumps(texts),
    )
    assert found == ["⟨RLO⟩evil", "␣a b␣", "∅", "⟨NUL⟩⟨BEL⟩", "\ufffd", "a⟨ZWSP⟩b", "<b>", "⟨ZWJ⟩", "a⏎b"]


def test_csv_holds_any_text_and_starts_no_formula(javascript):
    found = javascript(
        'import { csv } from "./export.js";\nconsole.log(JSON.stringify(csv(JSON.parse(process.argv[2]))));',
        json.dumps([["a,b", 'say "x"', 1.5], ["=1+1", None, ""], ["two\nlines", -3, ""]]),
    )
    assert found == '"a,b","say ""x""",1.5\r\n\'=1+1,,\r\n"two\nlines",-3,\r\n'
