"""What all tests share."""

import hypothesis

# A machine that is busy is no failure, the same commit gives the same result, and nothing is left on disk.
hypothesis.settings.register_profile("house", deadline=None, max_examples=40, derandomize=True, database=None)
hypothesis.settings.load_profile("house")
