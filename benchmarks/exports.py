"""How near the exports of the included model are to it, for Multi30k's test set of 2016.

    python -m benchmarks.exports [--only TARGET]

Each export writes a certificate that the other engine computes (`docs/leaving-and-arriving.md`). The rows are
recorded in `benchmarks/results/checks/exports.json`. An engine that is not installed is named and left out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.common.checks import record_of
from regard.data.files import locate

TEXTS = "multi30k:test_2016_flickr.en"
QUANTIZATIONS = {  # target -> those that the page shows
    "ctranslate2": ("float32", "float16", "bfloat16", "int8"),
    "onnx": ("float32", "float16", "int8"),
    "argos": ("float32", "int8"),
    "web": ("float16",),
}
WEIGHTS = {"ctranslate2": ".bin", "onnx": ".onnx"}  # target -> the files of its weights


def exported(target: str, quantization: str, texts: Path, folder: Path) -> Path | str:
    """The export in a folder, or why there is none."""
    out = folder / ("en-de.argosmodel" if target == "argos" else "export")
    command = [sys.executable, "-m", "regard", "export", "en-de", "--to", target, "--out", str(out)]
    command += ["--quantization", quantization, "--texts", str(texts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else out


def certificate_of(export: Path) -> dict[str, Any]:
    """The certificate in a folder or a package."""
    if export.is_dir():
        return json.loads((export / "CERTIFICATE.json").read_text("utf-8"))
    with zipfile.ZipFile(export) as archive:
        [name] = [each for each in archive.namelist() if each.endswith("CERTIFICATE.json")]
        return json.loads(archive.read(name))


def figures(export: Path) -> dict[str, Any]:
    """Shares of equal outputs, differences of log-probabilities, and the size in MB.

    The size is that of the weights (`WEIGHTS`), or of all files where they are one package or one page.
    """
    found = certificate_of(export)
    files = [each for each in export.rglob("*") if each.is_file()] or [export]
    if found["target"] in WEIGHTS:
        files = [each for each in files if each.suffix == WEIGHTS[found["target"]]]
    return {
        "texts": found["texts"]["count"],
        "greedy_equal": found["greedy"]["equal"],
        "beam_equal": found["beam"]["equal"],
        "largest_difference": found["log_probs"]["largest_difference"],
        "mean_difference": found["log_probs"]["mean_difference"],
        "mb": sum(each.stat().st_size for each in files) / 1_000_000,
        "argos": found.get("argos"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=list(QUANTIZATIONS))
    options = parser.parse_args()
    record = record_of("exports", parser, options)
    texts = locate(TEXTS, Path(), once=True)
    for target, quantizations in QUANTIZATIONS.items():
        for quantization in quantizations if options.only in (None, target) else ():
            with tempfile.TemporaryDirectory() as folder:
                export = exported(target, quantization, texts, Path(folder))
                if isinstance(export, str):
                    print(f"{target} {quantization} is not measured: {export}", flush=True)
                    continue
                row = figures(export)
            if row["argos"] and row["argos"]["translations"]["equal"] is None:
                print("argostranslate is not installed, so its own translations are not known: not recorded")
            else:
                record(f"{target} {quantization}", row)
            print(
                f"{target} {quantization}: {row['texts']:,} texts, greedy {row['greedy_equal']:.1%} equal,"
                f" beam {row['beam_equal']:.1%}; largest difference {row['largest_difference']:.5f},"
                f" mean {row['mean_difference']:.6f}; {row['mb']:.1f} MB; argos {row['argos']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
