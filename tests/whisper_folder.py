"""A small Whisper with random weights, written by transformers, which is also the judge of what it says."""

import json
from pathlib import Path

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

TEXT, EOS, START = 50, 50, 51  # pieces of text, and the first special tokens
LANGUAGES = {"<|en|>": 52, "<|de|>": 53, "<|yue|>": 54}
TASKS = {"translate": 56, "transcribe": 57}
SPECIAL = [
    "<|endoftext|>", "<|startoftranscript|>", *LANGUAGES, "<|unused|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
]  # fmt: skip
NO_TIMES = TEXT + len(SPECIAL) - 1
POSITIONS = 50  # of the encoder: a second
VOCAB = NO_TIMES + 1 + POSITIONS + 1
RATE = 16000
CONFIG = {
    "vocab_size": VOCAB,
    "num_mel_bins": 13,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_layers": 3,
    "decoder_attention_heads": 2,
    "d_model": 16,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_source_positions": POSITIONS,
    "max_target_positions": 33,
    "pad_token_id": EOS,
    "bos_token_id": EOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": START,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
GENERATION = {
    "pad_token_id": EOS,
    "bos_token_id": EOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": START,
    "max_length": 33,
    "no_timestamps_token_id": NO_TIMES,
    "is_multilingual": True,
    "lang_to_id": LANGUAGES,
    "task_to_id": TASKS,
    "suppress_tokens": [1, 2, START, 58, 59, 60],
    "begin_suppress_tokens": [7, EOS],
}


def whisper(folder: Path, *, seed: int = 0, config=None, generation=None, likely_times: float = 0.0):
    """Writes the folder; the model of transformers. `likely_times` makes timestamps more probable."""
    import transformers

    torch.manual_seed(seed)
    settings = transformers.WhisperConfig(**{**CONFIG, **(config or {})})
    model = transformers.WhisperForConditionalGeneration(settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1.6 * settings.d_model**-0.5 * torch.randn_like(parameter)
        bias = model.model.decoder.layer_norm.bias
        bias += 0.5 * torch.randn_like(bias)
        common = bias / bias.square().sum()
        model.proj_out.weight[settings.eos_token_id] = 3 * common  # or hardly any text would end
        model.proj_out.weight[NO_TIMES + 1 :] += likely_times * common
    model.generation_config = transformers.GenerationConfig(**{**GENERATION, **(generation or {})})
    model.save_pretrained(folder)
    extractor(settings.num_mel_bins).save_pretrained(folder)
    write_tokenizer(folder)
    return model


def extractor(mels: int = CONFIG["num_mel_bins"]):
    """The feature extractor of transformers, of windows of a second."""
    import transformers

    return transformers.WhisperFeatureExtractor(feature_size=mels, chunk_length=1)


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokeniser of single characters and one merge."""
    pieces = [*"abcdefghijklmnopqrstuvwxyz.,!?ABCDEFGHIJKLMNOP", "Ġ", "Ġa", "Ã", "¤"]
    assert len(pieces) == TEXT
    numbers = {piece: number for number, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(models.BPE(numbers, [("Ġ", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(each, special=True) for each in SPECIAL])
    times = [f"<|{step / 50:.2f}|>" for step in range(POSITIONS + 1)]
    backend.add_tokens([tokenizers.AddedToken(each, special=False) for each in times])
    assert backend.get_vocab_size() == VOCAB
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "WhisperTokenizer", "eos_token": SPECIAL[0], "unk_token": SPECIAL[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    """A noise whose loudness changes a hundred times a second."""
    random = np.random.default_rng(seed)
    hundredths = round(100 * seconds)
    loudness = random.random(hundredths).repeat(RATE // 100)
    return (0.5 * loudness * random.standard_normal(len(loudness))).clip(-1, 1).astype(np.float32)


def change(folder: Path, file: str, **settings) -> None:
    """Changes settings of a JSON file of the folder; None removes one."""
    table = json.loads((folder / file).read_text("utf-8")) | settings
    kept = {name: value for name, value in table.items() if value is not None or name not in settings}
    (folder / file).write_text(json.dumps(kept), "utf-8")
