"""Chat templates of Hugging Face folders: the ids, the answers and the files of transformers."""

import json

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers

import regard
from regard.errors import DataError, FolderError
from regard.verbs.convert import convert
from regard.verbs.generate import Generator, generate
from regard.verbs.load import load

TEXT = ["Hello there, how are you today?", "I am fine: thank you! 東京", "system user assistant \n\n"] * 3
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|header|>", "[INST]", "[/INST]"]
TEMPLATES = {
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] +"
        " '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% endif %}"
    ),
    "headers": (
        "{{- bos_token }}\n{%- for message in messages %}\n    {{- '<|header|>' + message['role'] + '\n\n'"
        " + message['content'] | trim + '<|im_end|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
        "    {{- '<|header|>assistant\n\n' }}\n{%- endif %}\n"
    ),
    "instructions": (
        "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}"
        "{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}{{- bos_token }}"
        "{%- for message in rest %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{- raise_exception('roles must alternate') }}{%- endif %}"
        "{%- if message['role'] == 'user' %}{%- if loop.last and system is defined %}"
        "{{- '[INST] ' + system + '\n\n' + message['content'] + ' [/INST]' }}{%- else %}"
        "{{- '[INST] ' + message['content'] + ' [/INST]' }}{%- endif %}{%- else %}"
        "{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"
    ),
}
USER = [{"role": "user", "content": "Hello there"}]
CONVERSATION = [
    {"role": "system", "content": "You are  fine."},
    *USER,
    {"role": "assistant", "content": "I am 東京!"},
    {"role": "user", "content": "how\nare you <today> </?"},
]


def tokenizer():
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(TEXT, trainer)
    backend.add_special_tokens(SPECIAL)
    return backend


@pytest.fixture(scope="module", params=list(TEMPLATES))
def folder(request, tmp_path_factory):
    """A small random chat model as transformers saves it."""
    import transformers

    path = tmp_path_factory.mktemp("chat") / request.param
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), bos_token="<s>", eos_token="<|im_end|>", pad_token="</s>"
    )
    theirs.chat_template = TEMPLATES[request.param]
    config = transformers.LlamaConfig(
        vocab_size=len(theirs),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        bos_token_id=theirs.bos_token_id,
        eos_token_id=theirs.eos_token_id,
        pad_token_id=theirs.pad_token_id,
    )
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 8  # or all tokens are all but equally likely
    model.generation_config.do_sample = False
    model.save_pretrained(path)
    theirs.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def theirs(folder):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def converted(folder, tmp_path_factory):
    return convert(folder, out=tmp_path_factory.mktemp("converted") / "model").path


@pytest.mark.parametrize("messages", [USER, CONVERSATION], ids=["one message", "several"])
def test_the_ids_are_those_of_transformers(folder, converted, theirs, messages):
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    for model in (folder, converted):
        prompts = Generator(model, chat=True).prompts
        [found] = prompts.encode([prompts.text(messages)])
        assert found == ids


def test_the_answer_is_that_of_transformers(folder, theirs):
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    ids = theirs.apply_chat_template(CONVERSATION, add_generation_prompt=True, return_tensors="pt")[
        "input_ids"
    ]
    answer = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    ours = Generator(folder, chat=True, max_new_tokens=12, temperature=0.0).one(CONVERSATION)
    expected = theirs.convert_ids_to_tokens(answer[answer != theirs.eos_token_id])
    assert list(ours.continuations[0].tokens) == expected
    assert ours.texts == [ours.continuations[0].text]


def test_a_message_alone_is_the_user_s_and_several_are_conversations_of_their_own(converted):
    settings = {"model": converted, "chat": True, "temperature": 0.0, "max_new_tokens": 16}
    alone = generate("Hello there", **settings)
    assert alone == generate(USER, **settings)
    other = generate("how are you", **settings)
    assert generate(["Hello there", "how are you"], **settings) == [alone, other]
    assert generate([USER, "how are you"], **settings) == [alone, other]
    system = generate([CONVERSATION[0], *USER], **settings)
    assert generate("Hello there", **settings, system="You are  fine.") == system


def test_an_answer_does_not_depend_on_the_batch_and_a_stream_is_the_whole(converted):
    chat = Generator(converted, chat=True, max_new_tokens=16)
    together = [each.texts for each in chat(["Hello there", CONVERSATION, "how"])]
    assert [chat.one(each).texts for each in ("Hello there", CONVERSATION, "how")] == together
    assert ["".join(chat.stream(CONVERSATION))] == together[1]


def test_the_template_goes_back_to_transformers(converted, theirs, tmp_path):
    import transformers

    convert(converted, to="hf", out=tmp_path / "hf")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for messages in (USER, CONVERSATION):
        ids = again.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert ids == theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("form", ["text", "list", "list without default"])
def test_older_folders_have_it_in_the_tokeniser_s_settings(folder, theirs, tmp_path, form):
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    template = (folder / "chat_template.jinja").read_text()
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    name = "default" if form == "list" else "tool_use"
    settings["chat_template"] = template if form == "text" else [{"name": name, "template": template}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    if form == "list without default":
        with pytest.raises(FolderError, match="named 'default'"):
            load(tmp_path)
        return
    assert load(tmp_path).chat_template == load(folder).chat_template


def test_a_special_token_in_a_message_is_refused(converted):
    """It could end the message and begin another, of the system."""
    with pytest.raises(DataError, match=r"message 1 spells '<\|im_end\|>'"):
        generate("Hello<|im_end|>", model=converted, chat=True)
    assert generate("Hello<|im_end|>", model=converted, max_new_tokens=1).startswith("Hello<|im_end|>")


def test_two_system_messages_are_refused(converted):
    with pytest.raises(DataError, match="has a system message already"):
        generate(CONVERSATION, model=converted, chat=True, system="Be brief.")


def test_a_system_message_without_a_chat_is_refused(converted):
    with pytest.raises(regard.UserError, match="system is for a chat"):
        generate("Hello", model=converted, system="Be brief.")


def test_messages_without_a_chat_are_refused(converted):
    with pytest.raises(DataError, match="a prompt is list, not a str"):
        generate(USER, model=converted)


def test_a_model_without_a_template_says_so(decoder_folder):
    with pytest.raises(FolderError, match="has no chat template"):
        generate("Hello", model=decoder_folder("characters"), chat=True)


def test_what_the_template_refuses_is_the_user_s_error(folder, converted):
    if folder.name != "instructions":
        pytest.skip("this template takes any messages")
    with pytest.raises(DataError, match="roles must alternate"):
        generate([*USER, *USER], model=converted, chat=True)
