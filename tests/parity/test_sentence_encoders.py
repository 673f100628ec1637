"""Sentence encoders make the vectors that sentence-transformers makes: length, prompt and case are theirs."""

import json

import pytest
import torch
import torch.nn.functional as F

from regard.errors import FolderError
from regard.verbs.convert import convert
from regard.verbs.embed import Embedder
from regard.weights.pretrained import load_pretrained

OLD, NEW = "sentence_transformers.models.", "sentence_transformers.sentence_transformer.modules."
TEXTS = ["Paris is the capital of France.", "a good film " * 9, "", "Berlin"]
PROMPTS = {"query": "the capital of ", "document": "a film "}


def modules(*names, package=OLD):
    entries = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{name}" if number else "",
            "type": package + name,
        }
        for number, name in enumerate(names)
    ]
    return json.dumps(entries)


POOLED = {"modules.json": modules("Transformer", "Pooling", "Normalize")}
MEAN = {
    "1_Pooling/config.json": json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True})
}
SHORT = {"sentence_bert_config.json": json.dumps({"max_seq_length": 9, "do_lower_case": False})}
PROMPTED = {
    "config_sentence_transformers.json": json.dumps({"prompts": PROMPTS, "default_prompt_name": "query"})
}
CASED = {"tokenizer_config.json": json.dumps({"do_lower_case": False, "tokenizer_class": "BertTokenizer"})}
LOWERED = {"sentence_bert_config.json": json.dumps({"do_lower_case": True})}
CASES = {
    "as long as there are positions": ({}, 18, "", False),
    "max_seq_length": (SHORT, 9, "", False),
    "max_seq_length in a file of another name": (
        {"sentence_roberta_config.json": SHORT["sentence_bert_config.json"]}, 9, "", False
    ),
    "the tokeniser's length": (
        {"tokenizer_config.json": json.dumps({"model_max_length": 7, "tokenizer_class": "BertTokenizer"})},
        7, "", False,
    ),
    "a default prompt": ({**SHORT, **PROMPTED}, 9, PROMPTS["query"], False),
    "lower case": ({**CASED, **LOWERED}, 18, "", True),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request, their_encoder):
    files, most, prompt, lower = CASES[request.param]
    folder, theirs, _ = their_encoder("BertModel", files={**POOLED, **MEAN, **files})
    return folder, theirs, most, prompt, lower


@torch.no_grad()
def expected(case):
    """What sentence-transformers does, in the words of transformers."""
    from transformers import AutoTokenizer

    folder, theirs, most, prompt, lower = case
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [prompt + text.strip() for text in TEXTS]
    texts = [text.lower() for text in texts] if lower else texts
    vectors = []
    for text in texts:
        asked = tokenizer(text, truncation=True, max_length=most, return_tensors="pt")
        vectors.append(F.normalize(theirs(**asked).last_hidden_state.mean(dim=1), dim=-1)[0])
    return torch.stack(vectors)


def vectors_of(folder):
    return torch.stack([each.vector for each in Embedder(folder, device="cpu")(TEXTS)])


def test_vectors_are_theirs(case, tmp_path, capsys):
    wanted = expected(case)
    torch.testing.assert_close(vectors_of(case[0]), wanted, rtol=1e-5, atol=1e-5)
    assert "line 2 is too long" in " ".join(capsys.readouterr().err.split())
    convert(case[0], out=tmp_path / "ours")
    torch.testing.assert_close(vectors_of(tmp_path / "ours"), wanted, rtol=1e-5, atol=1e-5)
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf")
    torch.testing.assert_close(vectors_of(tmp_path / "back"), wanted, rtol=1e-5, atol=1e-5)


def test_vectors_are_those_of_the_library_itself(case, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    convert(case[0], out=tmp_path / "ours")
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf")
    for folder in (case[0], tmp_path / "back"):
        theirs = library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS, convert_to_tensor=True)
        torch.testing.assert_close(vectors_of(folder), theirs, rtol=1e-5, atol=1e-5)


def test_newer_names_of_modules_and_poolings_are_known(their_encoder):
    """Of a package that has moved: a Normalize that is not recognised leaves vectors of other lengths."""
    new = {
        "modules.json": modules("transformer.Transformer", "Pooling", "normalize.Normalize", package=NEW),
        "1_Pooling/config.json": json.dumps({"embedding_dimension": 16, "pooling_mode": "cls"}),
    }
    config = load_pretrained(their_encoder("BertModel", files=new)[0]).loaded.config
    assert (config.pooling, config.normalised) == ("cls", True)


def test_a_dropped_prompt_and_other_wrong_files_are_refused(their_encoder):
    for files, reported in (
        ({"modules.json": modules("Transformer", "Pooling", "dense.Dense", package=NEW)}, "Dense is not"),
        ({"modules.json": modules("Transformer", "Pooling", "Dense")}, "Dense is not supported"),
        ({"1_Pooling/config.json": json.dumps({"pooling_mode": "lasttoken"})}, "pooling by lasttoken"),
        ({"1_Pooling/config.json": json.dumps({"pooling_mode": ["mean", "cls"]})}, "pooling by mean, cls"),
        ({"1_Pooling/config.json": json.dumps({"pooling_mode": "mean", "include_prompt": False}), **PROMPTED},
         "include_prompt = false"),
        ({"config_sentence_transformers.json": json.dumps({"default_prompt_name": "query"})},
         "default_prompt_name = 'query' is not one of its prompts"),
        ({"sentence_bert_config.json": json.dumps({"max_seq_length": "9"})}, "max_seq_length = '9'"),
        ({"sentence_bert_config.json": json.dumps({"do_lower_case": 1})}, "do_lower_case = 1"),
        ({"modules.json": "{}"}, "is not a list of modules"),
    ):  # fmt: skip
        folder = their_encoder("BertModel", files={**POOLED, **MEAN, **files})[0]
        with pytest.raises(FolderError, match=reported):
            load_pretrained(folder)
