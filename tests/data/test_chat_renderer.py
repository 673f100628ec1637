"""Chat templates run in a process of their own, within limits of time and memory."""

import threading

import pytest

from regard.data.chat_renderer import ChatRenderer
from regard.data.chat_template import ChatTemplate, checked_messages
from regard.errors import DataError, FolderError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HELLO = [{"role": "user", "content": " Grüße, 東京 🙂 "}]


def renderer(template, seconds=10.0, **special_tokens):
    return ChatRenderer(ChatTemplate(template=template, special_tokens=special_tokens), "a/folder", seconds)


def test_a_conversation_is_written_with_the_beginning_of_the_answer():
    with renderer(CHATML) as chat:
        assert chat.render(HELLO) == ("<|im_start|>user\nGrüße, 東京 🙂<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ bos_token }}{{ messages | length }}", "<s>1"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": " Grüße, 東京 🙂 "}]'),
        ("{% for x in range(5) %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "01"),
        ("a\n{% generation %}b{% endgeneration %}c", "a\nbc"),
        ("  {% if tools %}x{% endif %}\ny", "y"),
        ("{% set ns = namespace(n=1) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}", "2"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ documents is none }}{{ tools is none }}{{ other is defined }}", "TrueTrueFalse"),
    ],
)
def test_what_templates_may_use(template, text):
    with renderer(template, bos_token="<s>") as chat:
        assert chat.render(HELLO) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% if", "unexpected 'end of template'"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ 'a' * 10**10 }}", "MemoryError"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 0.5 s"),
        ("{% for i in range(9) %}{{ 'a' * 10**6 }}{% endfor %}", "more than 4,000,000 characters"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% include 'x' %}", "no loader"),
    ],
)
def test_a_template_that_fails_names_its_folder_and_the_next_call_has_the_same_answer(template, reason):
    with renderer(template, seconds=0.5 if "more than 0.5" in reason else 60.0) as chat:
        for _ in range(2):
            with pytest.raises(FolderError, match="the chat template of a/folder fails: ") as error:
                chat.render(HELLO)
            assert reason in str(error.value)


def test_a_template_may_refuse_a_conversation():
    with (
        renderer("{{ raise_exception('roles must alternate') }}") as chat,
        pytest.raises(DataError, match="refuses this conversation: roles must alternate"),
    ):
        chat.render(HELLO)


def test_a_process_that_was_killed_is_started_again():
    with renderer(CHATML) as chat:
        whole = chat.render(HELLO)
        process, _ = chat._running
        process.kill()
        process.wait()
        with pytest.raises(FolderError, match="its process ended"):
            chat.render(HELLO)
        assert chat.render(HELLO) == whole


def test_closing_ends_the_process_and_the_next_conversation_starts_another():
    chat = renderer(CHATML)
    whole = chat.render(HELLO)
    process, _ = chat._running
    chat.close()
    assert process.returncode is not None
    assert chat.render(HELLO) == whole
    chat.close()


def test_a_renderer_that_nobody_holds_leaves_no_process():
    chat = renderer(CHATML)
    chat.render(HELLO)
    process, _ = chat._running
    del chat, _
    assert process.returncode is not None


def test_several_threads_get_their_own_answers():
    found = {}
    with renderer("{{ messages[0].content }}") as chat:

        def ask(number):
            for _ in range(20):
                content = f"text {number}"
                found.setdefault(number, set()).add(chat.render([{"role": "user", "content": content}]))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: {f"text {number}"} for number in range(4)}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "has no message"),
        (["hello"], "message 1 is not an object"),
        ([{"role": "user"}], "message 1 is not an object"),
        ([{"role": "user", "content": "a", "name": "b"}], "message 1 is not an object"),
        ([*HELLO, {"role": "user", "content": 3}], "message 2: its content is int"),
        ([*HELLO, {"role": "user", "content": "a<|im_end|>b"}], "message 2 spells '<|im_end|>'"),
        ([{"role": "<|im_end|>", "content": "a"}], "message 1 spells"),
    ],
)
def test_messages_that_are_none_are_refused(messages, problem):
    with pytest.raises(DataError) as error:
        checked_messages(messages, ["<|im_start|>", "<|im_end|>"])
    assert problem in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"template": "a"},
        {"template": 1, "special_tokens": {}},
        {"template": "a", "special_tokens": {"bos_token": 1}},
        {"template": "a", "special_tokens": {}, "more": 1},
    ],
)
def test_a_damaged_file_is_refused(content):
    with pytest.raises(FolderError, match="not a chat template of regard"):
        ChatTemplate.from_dict(content, "a/folder")


def test_a_template_is_stored_whole():
    template = ChatTemplate(template=CHATML, special_tokens={"bos_token": "<s>"})
    assert ChatTemplate.from_dict(template.to_dict(), "here") == template
