"""Greedy decoding on a GPU beside Hugging Face and CTranslate2, all with the same random weights.

    python -m benchmarks.gpu.decode text|pairs [--device cuda] [--tiny]

`text`: GPT-2 124M continues prompts; `pairs`: the paper's base model translates. Lengths are forced, so all
do the same work. What cannot run is named in its row.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.convert.to_ctranslate2 import write_model
from benchmarks.convert.to_hugging_face import pair_model, text_model
from benchmarks.gpu.card import synchronize
from regard.decoding.batches import decode_all
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.decoding.settings import GenerationSettings
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

PAD, BOS, EOS = 0, 2, 3
ROUNDS = 3
Run = Callable[[], int]  # decodes once; returns the number of new tokens


@dataclass(frozen=True, kw_only=True)
class Sizes:
    rows: int
    prompt: int
    new: int
    vocabulary: int


SIZES, TINY = (
    Sizes(rows=64, prompt=32, new=128, vocabulary=32_000),
    Sizes(rows=2, prompt=5, new=6, vocabulary=60),
)


def config_of(work: str, sizes: Sizes, tiny: bool) -> Any:
    small: dict[str, Any] = {"d_model": 32, "num_heads": 4, "d_ff": 64} if tiny else {}
    if work == "text":
        return DecoderOnlyConfig.from_table(
            {**small, **({"num_layers": 1} if tiny else {})}, vocab_size=sizes.vocabulary
        )
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1} if tiny else {}
    return EncoderDecoderConfig.from_table(
        {**small, **layers}, src_vocab_size=sizes.vocabulary, tgt_vocab_size=sizes.vocabulary
    )


def regard(
    config: Any, inputs: list[list[int]], sizes: Sizes, device: torch.device, dtype: torch.dtype
) -> Run:
    model: Any = build_model(config, seed=0).eval().to(device, dtype)

    def continued() -> int:
        settings = ContinuationSettings(beam_size=1, begin=False, max_new_tokens=sizes.new)
        found = continue_all(
            settings.strategy(), model, prompts_of(inputs, begin_id=None), max_new_tokens=sizes.new
        )
        return sum(len(each[0].ids) for each in found)

    def translated() -> int:
        settings = GenerationSettings(
            beam_size=1, max_length_ratio=0.0, max_length_offset=sizes.new, max_length=sizes.new,
            min_length=sizes.new,
        )  # fmt: skip
        strategy = settings.strategy(pad_id=PAD, bos_id=BOS, eos_id=EOS)
        found = decode_all(strategy, model, inputs, batch_tokens=1 << 30, pad_id=PAD, eos_id=EOS)
        return sum(len(each[0].ids) for each in found)

    return continued if isinstance(config, DecoderOnlyConfig) else translated


def hugging_face(
    config: Any, inputs: list[list[int]], sizes: Sizes, device: torch.device, dtype: torch.dtype
) -> Run:
    import transformers

    transformers.logging.set_verbosity_error()
    weights, is_text = build_model(config, seed=0).state_dict(), isinstance(config, DecoderOnlyConfig)
    model: Any = (text_model if is_text else pair_model)(config, weights).eval().to(device, dtype)
    ids = torch.tensor(inputs, device=device)
    start = {} if is_text else {"decoder_start_token_id": BOS}
    settings = transformers.GenerationConfig(
        max_new_tokens=sizes.new, min_new_tokens=sizes.new, do_sample=False, pad_token_id=PAD,
        bos_token_id=BOS, eos_token_id=EOS, **start,
    )  # fmt: skip

    @torch.inference_mode()
    def run() -> int:
        found = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        return len(inputs) * (found.size(1) - (sizes.prompt if is_text else 1))

    return run


def ctranslate2(
    config: Any, inputs: list[list[int]], sizes: Sizes, device: torch.device, folder: Path
) -> Run:
    import ctranslate2 as engine

    weights = build_model(config, seed=0).state_dict()
    names = ["<pad>", "<unk>", "<s>", "</s>", *(f"t{number}" for number in range(4, sizes.vocabulary))]
    lines = [[names[number] for number in line] for line in inputs]
    options = {"device": device.type, "compute_type": "float16" if device.type == "cuda" else "float32"}
    if isinstance(config, DecoderOnlyConfig):
        generator = engine.Generator(str(write_model(config, weights, names, folder)), **options)

        def run() -> int:
            found = generator.generate_batch(
                lines, max_length=sizes.new, min_length=sizes.new, sampling_topk=1,
                include_prompt_in_result=False,
            )  # fmt: skip
            return sum(len(each.sequences[0]) for each in found)

        return run
    translator = engine.Translator(str(write_model(config, weights, names, folder)), **options)

    def translate() -> int:
        found = translator.translate_batch(
            lines, beam_size=1, max_decoding_length=sizes.new, min_decoding_length=sizes.new
        )
        return sum(len(each.hypotheses[0]) for each in found)

    return translate


def measured(make: Callable[[], Run], device: torch.device) -> dict[str, Any]:
    """New tokens a second, the best of some rounds; or why it cannot run."""
    try:
        run = make()
        tokens = run()
        best = float("inf")
        for _ in range(ROUNDS):
            synchronize(device)
            began = time.perf_counter()
            run()
            synchronize(device)
            best = min(best, time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001, the row says what failed
        return {"failed": f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"}
    return {"tokens": tokens, "tokens_per_second": tokens / best}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=("text", "pairs"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    device, sizes = torch.device(asked.device), TINY if asked.tiny else SIZES
    config = config_of(asked.work, sizes, asked.tiny)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, sizes.vocabulary, (sizes.rows, sizes.prompt), generator=generator)
    inputs, rows = ids.tolist(), []
    for dtype in (torch.float32, torch.bfloat16):
        for name, make in (("regard", regard), ("Hugging Face", hugging_face)):
            row = {"work": asked.work, "system": name, "precision": str(dtype).removeprefix("torch.")}
            rows.append(
                row
                | measured(lambda make=make, dtype=dtype: make(config, inputs, sizes, device, dtype), device)
            )
    with tempfile.TemporaryDirectory() as folder:
        row = {"work": asked.work, "system": "CTranslate2", "precision": "float16"}
        found = measured(lambda: ctranslate2(config, inputs, sizes, device, Path(folder) / "model"), device)
        rows.append(row | found)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
