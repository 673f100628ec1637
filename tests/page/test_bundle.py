"""The bundler: what it knows it joins rightly, and what it does not know it refuses."""

import pytest

from regard.page.bundle import UnknownSyntaxError, bundle

MODULES = {
    "main.js": (
        'import rest, {\n  add,\n  base as ten,\n} from "./views/sum.js";\nsay(add(ten, 2), rest.name);\n'
    ),
    "views/sum.js": (
        'import { Base } from "../base.js"; // beside it\n'
        "export const base = new Base().value;\n"
        "export function add(a, b) {\n  return a + b;\n}\n"
        'export default { name: "sum" };\n'
    ),
    "base.js": "export class Base {\n  value = 10;\n}\nexport async function later() {}\n",
}


def test_the_script_does_what_the_modules_do(javascript):
    assert said(javascript, bundle(MODULES, "main.js")) == [[12, "sum"]]


def test_a_module_of_modules_gives_the_entry_s_default():
    script = bundle(MODULES, "views/sum.js", esm=True)
    assert script.rstrip().endswith("export default $views_sum.default;")
    assert "main.js" not in script


@pytest.mark.parametrize(
    "line",
    [
        'import "./base.js";',
        'import * as all from "./base.js";',
        'import { Base } from "https://elsewhere/base.js";',
        "import { Base } from './base.js';",
        'const late = import("./base.js");',
        "const here = import.meta.url;",
        "export let count = 0;",
        "export { Base };",
        'export * from "./base.js";',
        "export default function () {}",
        "  export const inside = 1;",
    ],
)
def test_what_is_not_known_is_refused_with_its_line(line):
    with pytest.raises(UnknownSyntaxError, match=r"main\.js, line 2"):
        bundle({"main.js": f"const a = 1;\n{line}\n", "base.js": MODULES["base.js"]}, "main.js")


def test_words_that_only_look_like_imports_are_let_through(javascript):
    source = "const a = { import: 1 };\nsay(a.import, imported(2));\nfunction imported(x) {\n  return x;\n}\n"
    assert said(javascript, bundle({"main.js": source}, "main.js")) == [[1, 2]]


def test_comments_on_their_own_lines_are_left_out_and_nothing_else():
    source = (
        '/**\n * What it is.\n */\nexport const a = "// kept"; // kept too\n\n// gone\n'
        "export const b = 2 /* kept */ + 1;\n"
    )
    script = bundle({"main.js": source}, "main.js")
    assert 'const a = "// kept"; // kept too\nconst b = 2 /* kept */ + 1;\n' in script
    assert "gone" not in script
    assert "What it is" not in script


def test_template_literals_over_several_lines_are_kept(javascript):
    source = "say(`one\n  // two\n`);\n"
    assert said(javascript, bundle({"main.js": source}, "main.js")) == [["one\n  // two\n"]]


def test_a_missing_module_is_named_with_its_importers():
    with pytest.raises(UnknownSyntaxError, match=r"gone\.js: no such module; main\.js imports it"):
        bundle({"main.js": 'import { a } from "./gone.js";\n'}, "main.js")


def test_a_name_that_a_module_does_not_export_is_refused():
    modules = {"main.js": 'import { none } from "./base.js";\n', "base.js": MODULES["base.js"]}
    with pytest.raises(UnknownSyntaxError, match=r"main\.js: base\.js exports no none"):
        bundle(modules, "main.js")


def test_modules_that_import_each_other_are_refused():
    modules = {"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'}
    with pytest.raises(UnknownSyntaxError, match="each other"):
        bundle(modules, "a.js")


def said(javascript, script: str) -> list[list[object]]:
    """What a script said with `say(...)`."""
    before = "const said = []; const say = (...all) => said.push(all);"
    return javascript(f"{before}\n{script}\nconsole.log(JSON.stringify(said));")
