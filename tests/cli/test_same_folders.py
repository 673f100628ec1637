"""A command accepts the folders that its Python class accepts, Hugging Face's too, whatever the input is."""

import pytest

from regard.cli import run
from regard.verbs.classify import Classifier
from regard.verbs.classify import output_lines as class_lines
from regard.verbs.tag import Tagger
from regard.verbs.tag import output_lines as word_lines

TEXT = "a film"


@pytest.mark.parametrize(
    ("verb", "model", "cls", "output_lines"),
    [
        ("classify", "BertForSequenceClassification", Classifier, class_lines),
        ("tag", "BertForTokenClassification", Tagger, word_lines),
    ],
)
def test_a_hugging_face_folder_takes_a_text_and_a_file(
    capsys, tmp_path, their_encoder, verb, model, cls, output_lines
):
    folder, *_ = their_encoder(model, num_labels=3)
    (tmp_path / "lines").write_text(f"{TEXT}\n")
    [expected] = cls(folder)([TEXT])
    for given in ([TEXT], ["--input", str(tmp_path / "lines")]):
        assert run([verb, *given, "--model", str(folder)]) == 0
        assert capsys.readouterr().out == output_lines(expected)
