"""A command accepts the folders that its Python class accepts, Hugging Face's too, whatever the input is."""

import pytest

from regard.cli import run
from regard.verbs.classify import Classifier
from regard.verbs.classify import printed as printed_class
from regard.verbs.tag import Tagger
from regard.verbs.tag import printed as printed_words

TEXT = "a film"


@pytest.mark.parametrize(
    ("verb", "model", "cls", "printed"),
    [
        ("classify", "BertForSequenceClassification", Classifier, printed_class),
        ("tag", "BertForTokenClassification", Tagger, printed_words),
    ],
)
def test_a_hugging_face_folder_takes_a_text_and_a_file(
    capsys, tmp_path, their_encoder, verb, model, cls, printed
):
    folder, *_ = their_encoder(model, num_labels=3)
    (tmp_path / "lines").write_text(f"{TEXT}\n")
    [expected] = cls(folder)([TEXT])
    for given in ([TEXT], ["--input", str(tmp_path / "lines")]):
        assert run([verb, *given, "--model", str(folder)]) == 0
        assert capsys.readouterr().out == printed(expected)
