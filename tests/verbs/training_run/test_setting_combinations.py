"""The runs of a sweep: each combination of the values, by a name."""

from regard.verbs.training_run.setting_combinations import setting_combinations, split_values


def test_values_are_those_of_set():
    assert split_values("1e-3,none") == ["1e-3", "none"]
    assert split_values('[1, 2],"a,b",{x = [1,2]}, c') == ["[1, 2]", '"a,b"', "{x = [1,2]}", " c"]
    runs = setting_combinations(["data.train.size=1,2", "data.valid.size=3", 'x.y="a b",[1, 2]'])
    assert list(runs) == [
        f"data.train.size={size},data.valid.size=3,y={y}" for size in (1, 2) for y in ("_a_b_", "_1_2_")
    ]
    assert runs["data.train.size=1,data.valid.size=3,y=_1_2_"] == (
        "data.train.size=1",
        "data.valid.size=3",
        "x.y=[1, 2]",
    )


def test_the_empty_text_is_a_value_with_a_name():
    runs = setting_combinations(["training.loss=,focal"])
    assert runs == {"loss=empty": ('training.loss=""',), "loss=focal": ("training.loss=focal",)}
    assert runs == setting_combinations(['training.loss="",focal'])
