"""Runs in a peer's environment: a Marian of Hugging Face from a tokeniser to translations.

    python marian_trainer.py tokenize TOKENIZER SIZE FILE...
    python marian_trainer.py train TOKENIZER MODEL SOURCE TARGET UPDATES SEED
    python marian_trainer.py translate TOKENIZER MODEL INPUT OUTPUT BEAM

Ctrl-C ends the training after the update at hand, and keeps its model.
"""

import signal
import sys
from pathlib import Path

SHAPE = {
    "d_model": 192,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 768,
    "decoder_ffn_dim": 768,
    "max_position_embeddings": 256,
}
RATE, WARMUP, BATCH, LONGEST = 5e-4, 0.1, 64, 128  # peak, share of the updates, pairs, tokens
SPECIAL = ["<pad>", "</s>", "<unk>"]


def tokenize(folder, size, *files):
    """A BPE of both sides, as `tokenizers` documents it, with the end token that Marian reads."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=int(size),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train(list(files), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


def train(tokenizer, model_folder, source, target, updates, seed):
    """Seq2SeqTrainer for so many updates."""
    from transformers import (
        DataCollatorForSeq2Seq,
        MarianConfig,
        MarianMTModel,
        PreTrainedTokenizerFast,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        TrainerCallback,
        set_seed,
    )

    set_seed(int(seed))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    config = MarianConfig(
        vocab_size=len(tokenizer),
        decoder_vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        forced_eos_token_id=None,
        scale_embedding=True,
        **SHAPE,
    )
    model = MarianMTModel(config)
    sides = [
        tokenizer(lines(file), truncation=True, max_length=LONGEST, return_token_type_ids=False)["input_ids"]
        for file in (source, target)
    ]
    examples = [
        {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}
        for ids, labels in zip(*sides, strict=True)
    ]
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(Path(model_folder) / "trainer"),
        max_steps=int(updates),
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        warmup_steps=max(1, int(WARMUP * int(updates))),
        label_smoothing_factor=0.1,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        logging_steps=50,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=int(seed),
    )
    asked = []
    signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = control.should_training_stop or bool(asked)

    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=examples,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        callbacks=[Stop()],
    )
    trainer.train()
    model.save_pretrained(model_folder)
    Path(model_folder, "updates").write_text(str(trainer.state.global_step))
    print(f"{model.num_parameters():,} parameters, {trainer.state.global_step:,} updates")


def translate(tokenizer, model_folder, source, output, beam):
    """Each line of a file by beam search, the longest sentences first, a batch at a time."""
    import torch
    from transformers import MarianMTModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    model = MarianMTModel.from_pretrained(model_folder).eval()
    texts = lines(source)
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    found = [""] * len(texts)
    for first in range(0, len(order), BATCH):
        numbers = order[first : first + BATCH]
        batch = tokenizer(
            [texts[number] for number in numbers],
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
            return_token_type_ids=False,
        )
        with torch.inference_mode():
            made = model.generate(**batch, num_beams=int(beam), max_length=LONGEST)
        for number, text in zip(numbers, tokenizer.batch_decode(made, skip_special_tokens=True), strict=True):
            found[number] = " ".join(text.split())
    Path(output).write_text("".join(f"{text}\n" for text in found), "utf-8")


def lines(path):
    return Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    {"tokenize": tokenize, "train": train, "translate": translate}[sys.argv[1]](*sys.argv[2:])
