"""A Sphinx extension: `{recipe-keys}` lists every key of every recipe, from its dataclass."""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from plain_text import inline
from sphinx.util.docutils import SphinxDirective

from regard.verbs.recipe_keys import Section, model_sections, recipe_sections
from regard.verbs.shared.settings_source import Key


class RecipeKeys(SphinxDirective):
    """A section for each group of tables; with `:models:` the tables of `[model]`."""

    option_spec = {"models": lambda _: True}  # noqa: RUF012 (as docutils has it)

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the classes can change without a change of the page
        if "models" in self.options:
            return [self.described(section) for section in model_sections()]
        return list(self.groups())

    def groups(self) -> Iterator[nodes.Node]:
        for heading, sections in recipe_sections().items():
            group = self.section(heading, "keys-" + heading.lower().replace(" ", "-"))
            group += [self.described(section) for section in sections]
            yield group

    def section(self, title: str, name: str) -> nodes.section:
        """A section that other pages can link by its name."""
        section = nodes.section("", nodes.title(title, "", *inline(title)), names=[name])
        self.state.document.note_explicit_target(section, section)
        return section

    def described(self, section: Section) -> nodes.section:
        """A table of TOML: what it is for, then its keys."""
        found = self.section(section.title, section.name)
        found += nodes.paragraph("", "", *inline(section.about))
        found += nodes.definition_list("", *(_key(key) for key in section.keys), classes=["options"])
        return found


def _key(key: Key) -> nodes.definition_list_item:
    """A key, its type and its default, and below them what it means."""
    return nodes.definition_list_item(
        "",
        nodes.term("", "", nodes.literal(key.name, key.name), _kind(key)),
        nodes.definition("", nodes.paragraph("", "", *inline(_sentence(key.meaning)))),
    )


def _kind(key: Key) -> nodes.inline:
    if key.default in ("required", "not set"):
        return nodes.inline("", f" {key.kind}, {key.default}", classes=["kind"])
    default = nodes.literal(key.default, key.default)
    return nodes.inline("", f" {key.kind}, default ", default, classes=["kind"])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("recipe-keys", RecipeKeys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
