"""`regard` of which a process is killed while it saves the second time; started by test_sharded_saving.py.

    killed_writer.py WHEN RANK ARGUMENT...

WHEN is before, half or after: before the process writes its files, between two of them, or when all are
written.
"""

import os
import signal
import sys
from itertools import count

from regard.cli import main
from regard.training import run_writer
from regard.weights import folder

when, rank = sys.argv[1], sys.argv[2]
del sys.argv[1:3]
write, number = folder.write_files, count(1)


def killed(path, files):
    if os.environ["RANK"] != rank or not any(name.startswith("optimizer.shard") for name in files):
        return write(path, files)
    if next(number) == 1:
        return write(path, files)
    if when == "half":
        write(path, dict(list(files.items())[:1]))
    elif when == "after":
        write(path, files)
    return os.kill(os.getpid(), signal.SIGKILL)


folder.write_files = run_writer.write_files = killed

if __name__ == "__main__":
    main()
