"""LibreTranslate with the model of an Argos package, on a machine without a network.

`python libretranslate_server.py PACKAGES PORT`; PACKAGES is a folder with the unpacked package.

LibreTranslate downloads the models that split texts into sentences; here each text is one sentence. A second
package, the same one named for the other direction, keeps it from looking for more in its index.
"""

import json
import os
import shutil
import sys
from pathlib import Path

packages, port = Path(sys.argv[1]), sys.argv[2]
[package] = [each for each in packages.iterdir() if each.is_dir() and each.name != "reversed"]
if not (packages / "reversed").exists():
    shutil.copytree(package, packages / "reversed")
    metadata = json.loads((package / "metadata.json").read_text())
    for one, other in (("from_code", "to_code"), ("from_name", "to_name")):
        metadata[one], metadata[other] = metadata[other], metadata[one]
    (packages / "reversed" / "metadata.json").write_text(json.dumps(metadata))
os.environ |= {
    "ARGOS_PACKAGES_DIR": str(packages),
    "ARGOS_INTER_THREADS": "1",
    "ARGOS_INTRA_THREADS": "1",
    "ARGOS_BEAM_SIZE": "5",
    "ARGOS_COMPUTE_TYPE": "float32",  # by default the fastest, which is int8
    "XDG_DATA_HOME": str(packages.parent / "data"),
    "XDG_CACHE_HOME": str(packages.parent / "cache"),
}
os.chdir(packages.parent)

from argostranslate import sbd  # noqa: E402 (it reads the environment)
from libretranslate import main  # noqa: E402

sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
main()
