"""The chat template of a Hugging Face folder.

Newer folders have it as `chat_template.jinja`, older ones in `tokenizer_config.json`, where it is a text or a
list of named ones, of which "default" answers messages without tools.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.chat_template import ChatTemplate
from regard.data.folder_file import read_file
from regard.errors import FolderError
from regard.weights.huggingface_files import read_table
from regard.weights.huggingface_tokenizer import token_text
from regard.weights.strict_json import json_bytes

TEMPLATE, SETTINGS, SPECIAL = "chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json"
DEFAULT = "default"


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """The template of the folder; None if it has none.

    Raises:
        FolderError: a file is damaged, or the templates have names of which none is "default".
    """
    settings = _table(folder / SETTINGS)
    template = _stored(folder, settings)
    if template is None:
        return None
    tokens = {
        name: text
        for table in (_table(folder / SPECIAL), settings)
        for name, value in table.items()
        if name.endswith("_token") and (text := token_text(value)) is not None
    }
    return ChatTemplate(template=template, special_tokens=tokens)


def _stored(folder: Path, settings: Mapping[str, Any]) -> str | None:
    if os.path.isfile(folder / TEMPLATE):
        try:
            return read_file(folder / TEMPLATE).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FolderError(f"{folder / TEMPLATE}: {error}", "copy the folder again") from error
    match settings.get("chat_template"):
        case None:
            return None
        case str(template):
            return template
        case [*several]:
            named = {each.get("name"): each.get("template") for each in several if isinstance(each, dict)}
            if isinstance(template := named.get(DEFAULT), str):
                return template
    raise FolderError(
        f"{folder / SETTINGS}: chat_template is neither a text nor has one named {DEFAULT!r}",
        "write the template to use into chat_template.jinja",
    )


def with_chat_template(files: Mapping[str, bytes], template: ChatTemplate) -> dict[str, bytes]:
    """The files of the tokeniser, and the template with the special tokens that it refers to."""
    settings = {**json.loads(files[SETTINGS]), **template.special_tokens}
    return {**files, SETTINGS: json_bytes(settings), TEMPLATE: template.template.encode("utf-8")}


def _table(path: Path) -> dict[str, Any]:
    return read_table(path) if os.path.isfile(path) else {}
