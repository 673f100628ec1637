"""What the attention views compute, in node: a row's arithmetic, matrices, the places of a tree."""

import json

import numpy as np
import pytest
import torch

from regard.layers.scaled_dot_product import attention_weights

ROW = """import { rowOfAttention } from "./views/arithmetic_of_cell.js";
const given = JSON.parse(process.argv[2]);
console.log(JSON.stringify(rowOfAttention(given)));"""
MATRIX = """import { Matrix, headOf, runsFromRight } from "./views/weights.js";
const [rows, columns, values] = JSON.parse(process.argv[2]);
const matrix = new Matrix(rows, columns, Float32Array.from(values));
"""


@pytest.mark.parametrize("masked", [False, True])
def test_the_pages_arithmetic_gives_the_weights_of_the_models_kernel(javascript, masked):
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(1, 1, 1, 16, generator=generator), torch.randn(1, 1, 7, 16, generator=generator)
    mask = torch.arange(7)[None, None, None] < 4 if masked else None
    reported = {
        "query": query.flatten().tolist(),
        "keys": key[0, 0].tolist(),
        "mask": mask.flatten().int().tolist() if mask is not None else None,
        "bias": None,
    }
    row = javascript(ROW, json.dumps(reported))
    expected = attention_weights(query, key, mask).flatten()
    np.testing.assert_allclose([cell["weight"] for cell in row["cells"]], expected, atol=1e-6)


def test_a_soft_cap_bounds_the_score_before_the_bias(javascript):
    query, key = 9 * torch.ones(1, 1, 1, 4), torch.arange(12.0).view(1, 1, 3, 4) / 4
    bias = torch.tensor([[[[0.5, 0.0, -0.5]]]])
    reported = {
        "query": query.flatten().tolist(), "keys": key[0, 0].tolist(), "mask": None,
        "bias": bias.flatten().tolist(), "softcap": 2.0,
    }  # fmt: skip
    row = javascript(ROW, json.dumps(reported))
    weights = attention_weights(query, key, None, bias, 2.0).flatten().tolist()
    np.testing.assert_allclose([cell["weight"] for cell in row["cells"]], weights, atol=1e-6)


def test_a_bias_is_added_to_the_score_after_the_scale(javascript):
    reported = {"query": [1, 0, 0, 0], "keys": [[2, 0, 0, 0], [0, 0, 0, 0]], "mask": None, "bias": [0.5, 1.5]}
    row = javascript(ROW, json.dumps(reported))
    assert [cell["score"] for cell in row["cells"]] == [1.5, 1.5]
    assert [cell["weight"] for cell in row["cells"]] == [0.5, 0.5]


def test_a_row_that_may_look_nowhere_has_no_weight(javascript):
    reported = {"query": [1.0], "keys": [[1.0], [2.0]], "mask": [0, 0], "bias": None}
    assert [cell["weight"] for cell in javascript(ROW, json.dumps(reported))["cells"]] == [0, 0]


def test_a_large_matrix_made_small_keeps_each_blocks_largest_weight(javascript):
    values = np.random.default_rng(0).random((6, 5)).astype(np.float32)
    script = (
        MATRIX
        + "const small = matrix.pooled(3);\nconsole.log(JSON.stringify([small.rows, [...small.values]]));"
    )
    rows, small = javascript(script, json.dumps([6, 5, values.flatten().tolist()]))
    expected = [[values[r : r + 2, c : c + 2].max() for c in (0, 2, 4)] for r in (0, 2, 4)]
    assert rows == 3
    np.testing.assert_allclose(np.reshape(small, (3, 3)), expected)


def test_the_mean_head_is_the_mean_of_all(javascript):
    values = np.random.default_rng(0).random((4, 3, 2)).astype(np.float32)
    script = MATRIX + (
        "const array = { data: matrix.values, shape: [4, 3, 2] };\n"
        'console.log(JSON.stringify([[...headOf(array, "mean").values], [...headOf(array, 2).values]]));'
    )
    mean, second = javascript(script, json.dumps([12, 2, values.flatten().tolist()]))
    np.testing.assert_allclose(np.reshape(mean, (3, 2)), values.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(np.reshape(second, (3, 2)), values[2])


def test_words_of_a_script_from_right_to_left_run_so(javascript):
    script = MATRIX + (
        'const lines = [["the", "."], ["\\u0645\\u062d\\u0637", "<s>"], ["123", "!"], ["\\u05d4"]];\n'
        "console.log(JSON.stringify(lines.map(runsFromRight)));"
    )
    assert javascript(script, json.dumps([0, 0, []])) == [False, True, False, True]


def test_in_the_tree_of_a_beam_no_two_nodes_share_a_place_and_the_answer_runs_along_the_top(javascript):
    random = np.random.default_rng(0)
    nodes: list[dict] = []
    live: list[int | None] = [None]
    grown: list[int] = []
    for step in range(6):
        grown = []
        for parent in live:
            for _ in range(3):
                nodes.append(
                    {
                        "id": len(nodes),
                        "parent": parent,
                        "step": step,
                        "token": "x",
                        "score": -random.random(),
                    }
                )
                grown.append(len(nodes) - 1)
        random.shuffle(grown)
        live = list(grown[:3])
        for node in grown:
            nodes[node]["state"] = "live" if node in live else "dropped"
    nodes[grown[0]]["state"] = "best"
    script = """import { grown } from "./views/beam.js";
const { order, lines } = grown(JSON.parse(process.argv[2]));
console.log(JSON.stringify([lines, order.map((node) => ({ ...node, children: null }))]));"""
    lines, order = javascript(script, json.dumps(nodes))
    assert len({(node["step"], node["line"]) for node in order}) == len(nodes)
    assert all(0 <= node["line"] < lines for node in order)
    assert [node["line"] for node in order if node["wins"]] == [0] * 6
    by_id = {node["id"]: node for node in order}
    assert all(node["line"] >= by_id[node["parent"]]["line"] for node in order if node["parent"] is not None)
