"""The store of the workers of one machine is a file."""

from pathlib import Path
from urllib.parse import quote

from regard.distributed.rank import Rank
from regard.distributed.rendezvous import shared_store
from tests.warm_process import run_python

# in a process of its own: torch's file store waits with the interpreter's lock held, which no test could end
GONE = """
from regard.distributed.rank import Rank
from regard.distributed.rendezvous import shared_store
from regard.errors import RunError
try:
    shared_store(Rank(rank=1, size=2, local_rank=1, rendezvous_url="file:///a-folder-that-is-gone/meeting"))
except RunError as error:
    print(error.message)
"""


def test_a_folder_that_is_gone_is_not_waited_for():
    done = run_python(["-c", GONE], timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the process that started this one has ended\n"


def test_a_temporary_folder_may_have_any_name(tmp_path):
    folder = tmp_path / "a folder of 100 % böse names?"
    folder.mkdir()
    url = f"file://{quote(str(folder))}/meeting"
    assert url == (folder / "meeting").as_uri()
    first, second = (
        shared_store(Rank(rank=rank, size=2, local_rank=rank, rendezvous_url=url)) for rank in range(2)
    )
    first.set("key", "value")
    assert second.get("key") == b"value"
    assert Path(folder / "meeting").is_file()
