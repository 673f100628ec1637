"""What a server can be asked for, by the head of an encoder."""

import pytest

from regard.verbs.serve import ServedModel


@pytest.mark.parametrize(
    ("head", "labels", "tasks"),
    [
        ("classification", ("a", "b"), ("embed", "classify")),
        ("tokens", ("O", "B-PER"), ("tag",)),
        ("masked_language_model", (), ("embed", "fill")),
        ("none", (), ("embed",)),
    ],
)
def test_the_head_of_an_encoder_decides_what_it_is_asked_for(encoder_folder, head, labels, tasks):
    assert ServedModel(encoder_folder(head, labels)).tasks == tasks
