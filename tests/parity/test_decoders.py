"""Pretrained decoders have the outputs of transformers: GPT-2, GPT-NeoX, Phi, Llama, Qwen, Gemma, OLMo 2."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention

MODERN = {"vocab_size": 61, "hidden_size": 16, "intermediate_size": 21, "max_position_embeddings": 40}
GPT2 = ("GPT2LMHeadModel", "GPT2Config")
CASES = {
    "gpt2, one layer": (
        *GPT2,
        {"vocab_size": 53, "n_embd": 18, "n_head": 3, "n_layer": 1, "n_positions": 20},
    ),
    "gpt2, narrow inside": (
        *GPT2,
        {"vocab_size": 31, "n_embd": 10, "n_head": 5, "n_layer": 3, "n_inner": 7, "n_positions": 33},
    ),
    "gpt2, another gelu and eps": (
        *GPT2,
        {
            "vocab_size": 64,
            "n_embd": 24,
            "n_head": 2,
            "n_layer": 2,
            "n_positions": 16,
            "activation_function": "gelu",
            "layer_norm_epsilon": 0.01,
        },
    ),
}
CASES |= {
    "llama, one layer, heads of their own width": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"num_attention_heads": 4, "num_key_value_heads": 1, "num_hidden_layers": 1, "head_dim": 6, **MODERN},
    ),
    "llama, grouped, another theta": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            **MODERN,
        },
    ),
    "llama, tied, all heads": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"num_attention_heads": 2, "num_hidden_layers": 2, "tie_word_embeddings": True, **MODERN},
    ),
    "qwen3, one layer": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "num_hidden_layers": 1,
            "head_dim": 10,
            **MODERN,
        },
    ),
    "qwen3, grouped": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {"num_attention_heads": 6, "num_key_value_heads": 3, "num_hidden_layers": 3, "head_dim": 4, **MODERN},
    ),
    "qwen3, tied": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "num_hidden_layers": 2,
            "head_dim": 8,
            "tie_word_embeddings": True,
            "rms_norm_eps": 1e-3,
            **MODERN,
        },
    ),
}
YARN = {"rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "original_max_position_embeddings": 24}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 300.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 20,
}
SCALED = {  # with several frequencies in each part of the range
    "llama3": {"rope_parameters": LLAMA3, "head_dim": 16, "attention_bias": True},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 2.5}, "mlp_bias": True},
    "dynamic": {"rope_parameters": {"rope_type": "dynamic", "factor": 3.0}, "hidden_act": "gelu"},
    "yarn": {"rope_parameters": YARN, "head_dim": 24, "attention_bias": True, "mlp_bias": True},
    "yarn, untruncated, another factor of scores": {
        "rope_parameters": {
            **YARN, "truncate": False, "attention_factor": 0.7, "beta_fast": 3.0, "beta_slow": 0.5,
        },
        "head_dim": 24,
        "tie_word_embeddings": True,
    },
    "yarn, two scales": {"rope_parameters": {**YARN, "mscale": 0.8, "mscale_all_dim": 0.4}, "head_dim": 12},
}  # fmt: skip
CASES |= {
    f"llama, {name}": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, **MODERN, **settings},
    )
    for name, settings in SCALED.items()
}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
CASES |= {
    "mistral, a window": ("MistralForCausalLM", "MistralConfig", {**HEADS, "sliding_window": 3, **MODERN}),
    "mistral, a window of two": (
        "MistralForCausalLM",
        "MistralConfig",
        {**HEADS, "num_key_value_heads": 1, "sliding_window": 2, "head_dim": 6, **MODERN},
    ),
    "mistral, no window": (
        "MistralForCausalLM",
        "MistralConfig",
        {**HEADS, "sliding_window": None, "tie_word_embeddings": True, "hidden_act": "gelu_new", **MODERN},
    ),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**HEADS, **MODERN}),
    "qwen2, a window, tied": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            **HEADS,
            "num_key_value_heads": 1,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 0,
            "tie_word_embeddings": True,
            **MODERN,
        },
    ),
    "qwen2, windows in no layer, yarn": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            **HEADS,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 2,
            "rope_parameters": YARN,
            **MODERN,
        },
    ),
    "qwen2, windows of the last layers": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            **HEADS,
            **MODERN,
            "num_hidden_layers": 3,
            "use_sliding_window": True,
            "sliding_window": 3,
            "max_window_layers": 1,
        },
    ),
    "qwen3, biases, a window": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            **HEADS,
            "head_dim": 6,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 0,
            **MODERN,
        },
    ),
}
CASES |= {
    f"gemma, {name}": ("GemmaForCausalLM", "GemmaConfig", {**HEADS, **MODERN, **settings})
    for name, settings in {
        "one key head, wide heads": {"num_key_value_heads": 1, "head_dim": 10, "hidden_size": 12},
        "untied, biases, another gate": {
            "head_dim": 4,
            "tie_word_embeddings": False,
            "attention_bias": True,
            "hidden_act": "silu",
            "rms_norm_eps": 0.01,
        },
        "the old name of its activation": {"head_dim": 4, "hidden_act": "gelu"},
    }.items()
}
CASES |= {
    f"gpt-neox, {name}": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {"num_attention_heads": 4, "num_hidden_layers": 2, **MODERN, **settings},
    )
    for name, settings in {
        "a quarter rotated": {"hidden_size": 32},
        "all rotated, another base, no biases of attentions": {
            "num_attention_heads": 3,
            "hidden_size": 18,
            "rotary_pct": 1.0,
            "rotary_emb_base": 300,
            "attention_bias": False,
        },
        "one after the other, tied, tanh": {
            "use_parallel_residual": False,
            "tie_word_embeddings": True,
            "hidden_act": "gelu_fast",
            "layer_norm_eps": 0.01,
            "rotary_pct": 0.5,
        },
        "scaled angles": {
            "hidden_size": 24,
            "num_attention_heads": 2,
            "rope_parameters": {**YARN, "partial_rotary_factor": 0.5},
        },
    }.items()
}
CASES |= {
    f"phi, {name}": ("PhiForCausalLM", "PhiConfig", {**HEADS, **MODERN, **settings})
    for name, settings in {
        "half rotated, grouped": {},
        "one key head, norms, another part": {
            "num_key_value_heads": 1,
            "hidden_size": 40,
            "partial_rotary_factor": 0.4,
            "qk_layernorm": True,
        },
        "tied, relu, scaled": {
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "hidden_act": "relu",
            "layer_norm_eps": 1e-3,
            "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 200.0},
        },
    }.items()
}
ODD = {"query_pre_attn_scalar": 11, "head_dim": 6, "sliding_window": 3, "num_hidden_layers": 3}
CASES |= {
    f"gemma2, {name}": ("Gemma2ForCausalLM", "Gemma2Config", {**HEADS, **MODERN, **ODD, **settings})
    for name, settings in {
        "one key head, low caps": {
            "num_key_value_heads": 1,
            "attn_logit_softcapping": 0.7,
            "final_logit_softcapping": 2.5,
        },
        "untied, biases, no cap of scores, other types of layers": {
            "tie_word_embeddings": False,
            "attention_bias": True,
            "attn_logit_softcapping": None,
            "layer_types": ["full_attention", "full_attention", "sliding_attention"],
            "hidden_activation": "silu",
        },
        "no window, no cap of logits, scaled angles": {
            "layer_types": ["full_attention"] * 3,
            "final_logit_softcapping": None,
            "rope_parameters": LLAMA3,
            "head_dim": 16,
        },
        "all windows": {"layer_types": ["sliding_attention"] * 3, "sliding_window": 2},
    }.items()
}
CASES |= {
    f"gemma3, {name}": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**HEADS, **MODERN, **ODD, **settings})
    for name, settings in {
        "one key head, every other layer": {
            "num_key_value_heads": 1,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 900.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        },
        "all windows, untied, biases, a cap": {
            "tie_word_embeddings": False,
            "attention_bias": True,
            "final_logit_softcapping": 3.0,
            "rms_norm_eps": 0.01,
        },
        "no window": {"layer_types": ["full_attention"] * 3, "hidden_activation": "gelu"},
        "full attention first": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    }.items()
}
CASES |= {
    f"olmo2, {name}": ("Olmo2ForCausalLM", "Olmo2Config", {**HEADS, **MODERN, **settings})
    for name, settings in {
        "grouped": {},
        "one key head, biases, scaled angles": {
            "num_key_value_heads": 1,
            "attention_bias": True,
            "rope_parameters": LLAMA3,
        },
        "tied, wide heads, another gate": {
            "num_key_value_heads": 4,
            "head_dim": 10,
            "tie_word_embeddings": True,
            "hidden_act": "gelu",
            "rms_norm_eps": 0.01,
        },
    }.items()
}
MARKS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LENGTHS = torch.tensor([9, 4, 1])


@pytest.fixture(params=CASES, scope="module")
def pair(request, make):
    model, config, settings = CASES[request.param]
    return make(request.param, model, config, {**settings, **MARKS})


@pytest.fixture
def ids(pair):
    generator = torch.Generator().manual_seed(2)
    return torch.randint(3, pair.config.vocab_size, (3, 9), generator=generator)


@pytest.fixture
def real():
    return torch.arange(9) < LENGTHS[:, None]


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_logits_states_and_attentions_are_theirs(pair, ids, real, listen):
    with torch.no_grad(), listen([pair.ours.input, *pair.ours.blocks, pair.ours.norm]) as states:
        with record_attention(pair.ours) as recording:
            logits = pair.ours(ids)
        theirs = pair.theirs(
            ids, attention_mask=real.long(), output_hidden_states=True, output_attentions=True
        )
    close(logits[real], theirs.logits[real])
    *before, _, last = states
    for ours, there in zip([*before, last], theirs.hidden_states, strict=True):
        close(ours[real], there[real])
    assert len(theirs.attentions) == pair.config.num_layers
    for number, there in enumerate(theirs.attentions):
        ours = recording.last_weights(f"blocks.{number}.self_attention")
        for row, length in enumerate(LENGTHS):
            close(ours[row, :, :length, :length], there[row, :, :length, :length])


def test_loss_and_gradients_are_theirs(pair, ids, real, gradients_by_file_name):
    labels = ids.where(real, -100)
    theirs = pair.theirs(ids, attention_mask=real.long(), labels=labels)
    logits = pair.ours(ids)[:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    close(loss, theirs.loss)
    pair.theirs.zero_grad()
    pair.ours.zero_grad()
    theirs.loss.backward()
    loss.backward()
    ours, there = gradients_by_file_name(pair)
    assert len(there) >= 4
    for name, gradient in there.items():
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_reading_with_a_cache_gives_what_reading_at_once_gives(pair, ids):
    cache = pair.ours.start()
    steps = [
        pair.ours.extend(ids[:, :3], cache),
        *(pair.ours.extend(ids[:, [t]], cache) for t in range(3, 9)),
    ]
    close(torch.cat(steps, dim=1), pair.theirs(ids).logits)


@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 3])
def test_what_follows_is_what_follows_there(pair, ids, beams):
    new, prompt = 6, ids[:1, :4]
    theirs = pair.theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        num_beams=beams,
        min_new_tokens=new,
        max_new_tokens=new,
    )
    assert continued(pair.ours, prompt, new, beams) == theirs[0, 4:].tolist()


def continued(model, prompt, new, beams):
    """The best of what a search finds, cut off where there are enough tokens."""
    from regard.decoding.continuation import PromptStepper
    from regard.decoding.hypothesis import Request
    from regard.decoding.rules import BannedTokens, LengthLimits
    from regard.decoding.search import BeamSearch, GreedySearch

    common = {
        "limits": LengthLimits(offset=99, most=99),
        "rules": (BannedTokens(ids=(2,)),),
        "bos_id": int(prompt[0, 0]),
        "cut": True,
    }
    search = (
        GreedySearch(**common, eos_id=2)
        if beams == 1
        else BeamSearch(**common, eos_id=2, size=beams, n_best=beams)
    )
    stepper = PromptStepper(model)
    stepper.start(prompt[:, :0], torch.zeros(1, dtype=torch.int64))
    rest = tuple(prompt[0, 1:].tolist())
    request = Request(src_len=0, prefix=rest, most=len(rest) + new)
    [[best, *_]] = search(stepper, [request])
    return list(best.ids)[len(rest) :]


@torch.no_grad()
def test_the_way_back_is_equal(pair, ids, given_back):
    close(given_back(pair)(ids).logits, pair.theirs(ids).logits)


@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, ids, through_folders):
    loaded, theirs = through_folders(pair)
    torch.testing.assert_close(loaded.model(ids), pair.ours(ids), rtol=0, atol=0)
    close(pair.ours(ids), theirs(ids).logits)
