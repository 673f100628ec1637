import torch

from regard.weights.environment import environment, environment_differences


def test_the_same_machine_differs_in_nothing():
    assert environment_differences({"environment": environment()}) == []


def test_each_difference_is_one_line_with_both_values():
    then = environment() | {"torch": "2.10.0", "threads": 96}
    assert environment_differences({"environment": then}) == [
        f"torch: 2.10.0 then, {torch.__version__} now",
        f"threads: 96 then, {torch.get_num_threads()} now",
    ]


def test_a_checkpoint_without_an_environment_is_reported():
    assert len(environment_differences({})) == 1
