"""Tables of labelled texts: their columns in either order, decimal commas, and CSV files as test data."""

from dataclasses import replace

import pytest

from regard.data.corpus import LinePolicy
from regard.data.labelled import LabelledSettings, numeric_labels, open_labelled
from regard.data.tables import open_table
from regard.errors import DataError, RecipeError, UserError
from regard.verbs.classify import classify
from regard.verbs.evaluate import evaluate
from regard.verbs.new import new
from regard.verbs.proposals.columns import Roles, roles_of
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.pretrained_recipe import evaluated_recipe
from regard.verbs.shared.settings import load_recipe, recipe_from
from regard.verbs.shared.test_data_settings import with_table
from regard.verbs.tasks.kinds import task_kind
from regard.verbs.tasks.task import settings_of_test_data
from regard.weights.model_folder import load_model


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def reviews(path, *, delimiter=",", names=("id", "review", "rating"), points=("good", "bad")):
    rows = [(str(i), f"the film {i} is {('dull', 'fine')[i % 2]}", points[i % 2]) for i in range(60)]
    return write(path, map(delimiter.join, [names, *rows]))


def numbers(path, points):
    return reviews(path, delimiter=";", names=("id", "text", "stars"), points=points)


@pytest.mark.parametrize("columns", ["rating,review", "review,rating", "2,1"])
def test_text_and_label_may_be_named_in_either_order(tmp_path, columns):
    written = new(reviews(tmp_path / "a.csv"), columns=columns.split(","), out=tmp_path / "a.toml")
    assert "classification (columns review and rating; not used: id)" in written.reading
    assert (tmp_path / "a.data" / "train.tsv").read_text().splitlines()[1].startswith("the film")


def test_columns_called_label_and_text_are_a_classification(tmp_path):
    table = open_table(write(tmp_path / "a.csv", ["label,text", "x,one", "y,two", "z,three"]), "csv")
    for columns in (["label", "text"], ["text", "label"]):
        assert roles_of(table, None, columns) == Roles(task="classification", columns=("text", "label"))


def test_a_csv_file_with_semicolons_has_decimal_commas(tmp_path):
    file = numbers(tmp_path / "a.csv", ("4,5", "1,0"))
    assert "regression" in new(file, out=tmp_path / "a.toml").reading
    lines = (tmp_path / "a.data" / "train.tsv").read_text().splitlines()
    assert {line.split("\t")[1] for line in lines[1:]} == {"4.5", "1.0"}
    settings = LabelledSettings(file=str(file), format="csv", label_field="stars")
    corpus = open_labelled(settings, LinePolicy(), tmp_path)
    assert set(numeric_labels(corpus, list(corpus))) == {4.5, 1.0}
    classes = open_labelled(settings, LinePolicy(), tmp_path, classes=True)
    assert {pair.target for pair in classes} == {"4,5", "1,0"}


def test_decimal_commas_and_points_in_one_file_are_refused(tmp_path):
    with pytest.raises(DataError, match="a decimal comma, and some a point"):
        new(numbers(tmp_path / "a.csv", ("4,5", "1.0")), task="regression", out=tmp_path / "a.toml")


@pytest.mark.parametrize("columns", [(), ("how", "what"), ("2", "1")])
def test_a_csv_file_is_evaluated_by_its_own_columns(tmp_path, columns):
    source = load_recipe(new(reviews(tmp_path / "a.csv"), out=tmp_path / "a.toml").recipe)
    other = str(reviews(tmp_path / "b.csv", delimiter=";", names=("n", "what", "how")))
    changed, data = with_table(source, other, columns)
    test = changed.recipe.data.test
    assert (data, test.format) == (None, "csv")
    pairs = [(pair.source, pair.target) for pair in open_labelled(test, LinePolicy(), tmp_path)]
    assert pairs[:2] == [("the film 0 is dull", "good"), ("the film 1 is fine", "bad")]
    assert len(pairs) == 60


@pytest.mark.parametrize("columns", [("review",), ("id", "review", "rating")])
@pytest.mark.parametrize("file", ["b.jsonl", "a.csv"])
def test_the_columns_of_labelled_texts_are_two(tmp_path, columns, file):
    source = load_recipe(new(reviews(tmp_path / "a.csv"), out=tmp_path / "a.toml").recipe)
    with pytest.raises(UserError, match="for labelled texts") as refused:
        with_table(source, str(tmp_path / file), columns)
    assert "name two columns: text and label" in refused.value.hint


@pytest.mark.parametrize("columns", [(), ("text", "label")])
def test_labelled_texts_of_a_masked_language_model_may_be_in_another_format(tmp_path, columns):
    labelled = {"file": "train.txt", "format": "labelled"}
    table = {"name": "masked", "task": {"kind": "masked_language_model"}, "data": {"train": labelled}}
    source = recipe_from(table, "", tmp_path, "recipe")
    changed, _ = with_table(source, str(write(tmp_path / "a.csv", ["text,label", "a,x", "b,y"])), columns)
    corpus = open_labelled(changed.recipe.data.test, LinePolicy(), tmp_path)
    assert [pair.source for pair in corpus] == ["a", "b"]


def test_other_data_than_tables_stay_as_they_are_and_have_no_columns(tmp_path):
    source = load_recipe(new(reviews(tmp_path / "a.csv"), out=tmp_path / "a.toml").recipe)
    assert with_table(source, "b.tsv", ()) == (source, "b.tsv")
    with pytest.raises(DataError, match="no column 'whta'"):
        with_table(source, str(tmp_path / "a.csv"), ("whta", "rating"))
    with pytest.raises(UserError, match="columns are those of data"):
        with_table(source, None, ("review", "rating"))


@pytest.mark.parametrize(("recipe", "kind"), [("shakespeare-char-cpu", "text"), ("ud-pos", "CoNLL-U")])
def test_a_csv_file_is_not_the_test_data_of_models_that_read_text_or_words(untrained, recipe, kind):
    source = load_recipe(recipe_path(recipe))
    with pytest.raises(RecipeError, match=rf"a\.csv\.gz is a CSV file, but the model's recipe reads {kind}"):
        settings_of_test_data(source.recipe, load_model(untrained), "a.csv.gz", source.base)


ROWS = ["id,review,rating", "0,a good film,neg", "1,bad,pos", "2,the cat sat,", "3,,neg", "4,a mat,nan"]
RECORDS = ['{"review": "a good film", "rating": "neg"}', '{"review": "bad", "rating": "pos"}']
RECORDS += [
    '{"review": "the cat sat"}',
    '{"review": "", "rating": "neg"}',
    '{"review": "a mat", "rating": ""}',
]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("columns", [(), ("review", "rating")])
def test_a_classifier_that_no_recipe_trained_is_evaluated_on_a_table(encoder_folder, tmp_path, name, columns):
    lines = {"a.csv": ROWS, "a.tsv": [row.replace(",", "\t") for row in ROWS], "a.jsonl": RECORDS}[name]
    model = encoder_folder("classification", ("neg", "pos"))
    if not columns:
        lines = [line.replace("review", "text").replace("rating", "label") for line in lines]
    found = evaluate(model=model, data=write(tmp_path / name, lines), columns=columns)
    assert found.examples == "2 texts; 1 left out: empty; 2 left out: without a label"
    predicted = classify(["a good film", "bad"], model=model)
    assert found.confusion == [[int(label == name) for name in ("neg", "pos")] for label in predicted]


def test_a_model_that_no_recipe_trained_has_no_test_data_of_its_own(encoder_folder, tmp_path):
    with pytest.raises(UserError, match="not trained by a recipe, which would name test data"):
        evaluate(model=encoder_folder("classification", ("neg", "pos")))
    numbered = encoder_folder("classification", ("LABEL_0", "LABEL_1"))
    table = write(tmp_path / "a.csv", ["text,label", "a good film,0", "bad,1"])
    assert evaluate(model=numbered, data=table).examples == "2 texts"
    values = write(tmp_path / "b.csv", ["text,label", "a good film,0.5", "bad,1", "a cat,", "the mat,2"])
    assert evaluate(model=encoder_folder("regression"), data=values).examples.startswith(
        "3 texts; 1 left out"
    )


def test_json_lines_are_test_data_whatever_the_format_of_the_training_texts(tmp_path):
    source = load_recipe(new(reviews(tmp_path / "a.csv"), out=tmp_path / "a.toml").recipe)
    file = write(tmp_path / "b.jsonl", ['{"what": "fine", "how": "good"}', '{"what": "dull"}'])
    changed, data = with_table(source, str(file), ("what", "how"))
    test = changed.recipe.data.test
    corpus = open_labelled(test, LinePolicy(), tmp_path, classes=True)
    assert (data, test.format) == (None, "jsonl")
    assert [(pair.source, pair.target) for pair in corpus] == [("fine", "good")]
    assert corpus.skipped == {"without a label": 1}


def test_a_file_of_tags_has_one_signature_whether_a_recipe_or_a_call_names_it(encoder_folder, tmp_path):
    file = write(tmp_path / "a.bio", ["a B-X", "cat O", "", "bad O"])
    model = encoder_folder("tokens", ("B-X", "O"))
    source = evaluated_recipe(load_model(model), str(file))
    columns = []
    for column, data in (("xpos", file), ("upos", file)):
        parts = replace(source.recipe.data, column=column)
        changed = replace(source, recipe=replace(source.recipe, data=parts))
        report = task_kind(changed.recipe).open_test_data(changed, load_model(model), str(data))
        [facts, *_] = [each.signature for each in report.evaluate(load_model(model).model).scores]
        columns.append(facts.split("column:")[1].split("|")[0])
    assert columns == ["xpos", "last"]
