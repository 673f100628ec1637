"""Train a Transformer on tensors of one's own, without recipe and files: reverse a sequence of digits.

python examples/training_loop.py
"""

import torch

from regard.data import LoaderSettings, SequencePairs
from regard.decoding import GreedySearch, decode_all
from regard.models import EncoderDecoderConfig, build_model
from regard.training import CrossEntropy, ScheduleSettings, TrainingSettings, fit

if __name__ == "__main__":
    digits = (
        torch.randint(10, (4000, 8), generator=torch.Generator().manual_seed(1)) + 4
    ).tolist()  # 0 to 3 are special
    examples = SequencePairs(digits, [each[::-1] for each in digits], pad_id=0, bos_id=2, eos_id=3)
    config = EncoderDecoderConfig(
        src_vocab_size=14, tgt_vocab_size=14, pad_id=0, d_model=32, num_heads=2, d_ff=64,
        num_encoder_layers=1, num_decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    model = build_model(config, seed=1)
    schedule = ScheduleSettings(kind="cosine", learning_rate=0.005, warmup_steps=50)
    settings = TrainingSettings(max_steps=400, validate_every=200, save_every=200, schedule=schedule)
    batches = LoaderSettings(batch_tokens=1024)
    state = fit(model, examples, "runs/digits", objective=CrossEntropy(), settings=settings, batches=batches)
    [[best]] = decode_all(GreedySearch(), model, [[4, 5, 6, 7, 8, 9, 10, 11]])
    print(f"loss {state.best_value:.3f}; 0 1 2 3 4 5 6 7 ->", *(token - 4 for token in best.ids))
