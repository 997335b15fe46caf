"""Modules are bundled dependencies first, each in its own scope; unsupported modules are refused with a reason."""

import shutil
import subprocess

import pytest

from regard.viewer import bundle
from regard.viewer.bundle import BundleError, join_modules


def join(modules, entry="main.js", **options):
    return join_modules(entry, modules.__getitem__, **options)


def run(script, tmp_path):
    """What a script says when Node runs it as a module."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not there")
    path = tmp_path / "join_modules.mjs"
    path.write_text(script, encoding="utf-8")
    return subprocess.run([node, str(path)], capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_dependencies_come_first_and_once(tmp_path):
    script = join(
        {
            "main.js": 'import { left } from "./parts/left.js";\nimport { right } from "./parts/right.js";\n'
            "console.log(left + right);\n",
            "parts/left.js": 'import { one } from "../one.js";\nconst own = 10;\nexport function left() {}\n'
            "left.valueOf = () => own + one;\n",
            "parts/right.js": 'import {\n  // once\n  one,\n} from "../one.js";\nconst own = 100;\n'
            "export const right = own + one - 1;\n",
            "one.js": "console.log('once');\nexport const one = 1;\n",
        }
    )
    assert run(script, tmp_path) == "once\n111"


@pytest.mark.parametrize(
    "body", ["const made = { render: () => 7 };\nexport default made;", "export default { render: () => 7 };"]
)
def test_a_default_export_of_the_entry_is_kept(body, tmp_path):
    script = join({"main.js": body}, default=True)
    (tmp_path / "made.mjs").write_text(script, encoding="utf-8")
    assert run('import made from "./made.mjs";\nconsole.log(made.render());', tmp_path) == "7"


def test_async_functions_generators_classes_and_lets_are_exported(tmp_path):
    names = "one, two, Three, four"
    body = (
        "export async function one() { return 1; }\nexport function* two() { yield 2; }\n"
        "export class Three {}\nexport let four = 4;\n"
    )
    main = f'import {{ {names} }} from "./parts.js";\nconsole.log(typeof one, typeof two, typeof Three, four);\n'
    assert run(join({"main.js": main, "parts.js": body}), tmp_path) == "function function function 4"


def test_words_in_texts_and_comments_are_left_alone(tmp_path):
    body = '/*\nexport const no = 1;\n*/\n// import { x } from "y"\nconsole.log("export const a = import");\n'
    assert run(join({"main.js": body}), tmp_path) == "export const a = import"


def test_comments_are_left_out_but_not_from_texts(tmp_path):
    body = (
        "/** Says it. */\nfunction say(a) {\n  // a reason\n  return a; // a note\n}\n\n"
        "console.log(say(`one\n\n// two\n`));\n"
    )
    script = join({"main.js": body})
    assert "Says it" not in script and "a reason" not in script
    assert run(script, tmp_path) == "one\n\n// two"


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"main.js": 'import { a } from "./main.js";'}, "main.js → main.js"),
        (
            {
                "main.js": 'import { a } from "./a.js";',
                "a.js": 'import { b } from "./b.js";',
                "b.js": 'import { a } from "./a.js";',
            },
            "in a cycle: a.js → b.js → a.js",
        ),
        ({"main.js": 'import { a } from "./gone.js";'}, "no module gone.js, which main.js imports"),
        ({"main.js": 'import { a } from "../../etc/passwd";'}, "outside"),
        ({"main.js": 'import { a } from "https://example.org/a.js";'}, "relative path"),
        ({"main.js": 'import { a } from "./a.js";', "a.js": "export const b = 1;"}, "main.js imports a from a.js"),
        ({"main.js": 'import a from "./a.js";'}, "only named imports"),
        ({"main.js": 'import * as a from "./a.js";'}, "only named imports"),
        ({"main.js": 'import "./a.js";'}, "only named imports"),
        ({"main.js": 'export * from "./a.js";'}, "only named imports"),
        ({"main.js": 'export { a } from "./a.js";'}, "only named imports"),
        ({"main.js": "const a = 1;\nexport { a };"}, "only named imports"),
        ({"main.js": 'import { a as b } from "./a.js";'}, "main.js says 'a as b'"),
    ],
)  # fmt: skip
def test_unsupported_modules_are_refused_with_a_reason(modules, said):
    with pytest.raises(BundleError, match=said.replace("(", r"\(")):
        join(modules)


def test_a_missing_export_is_an_error():
    with pytest.raises(BundleError, match="does not export default"):
        join({"main.js": "const a = 1;"}, default=True)


@pytest.mark.parametrize("entry", ["hosts/page.js", "hosts/widget.js"])
def test_the_viewer_itself_can_be_bundled(entry, tmp_path):
    script = bundle.script(entry)
    path = tmp_path / "viewer.mjs"
    path.write_text(script, encoding="utf-8")
    if node := shutil.which("node"):
        subprocess.run([node, "--check", str(path)], check=True, timeout=60)
    assert "\nimport " not in script
