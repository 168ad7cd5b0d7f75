"""The folders show the architecture, imports obey it, and the wheel carries it."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "egraph_fusion"
LINKS = ("codegen", "extract", "rulesets")

# From low to high.  A unit imports itself and units of lower layers, never another one of its own
# layer or above; a module belongs to the unit with the longest matching name.
LAYERS = (
    ("errors", "version"),
    ("arguments", "output_files"),
    ("ir",),
    ("frontend", "egraph.snapshot", "example_models"),
    ("rulesets", "extract", "fusion"),
    ("egraph", "codegen"),
    ("runtime", "optimizer", "pages"),
    ("pipeline",),
    ("convert", "experiment", "runtime.backend"),
    ("terminal",),
    ("demo",),
    ("commands",),
    ("cli",),
    ("__init__", "__main__"),
)
LAYER_OF = {unit: height for height, units in enumerate(LAYERS) for unit in units}

# Who may import a library (under TYPE_CHECKING anyone may).
BORDERS = {
    "cffi": ("codegen.build", "runtime"),
    "distributed": ("convert",),
    "egglog": ("egraph",),
    "highspy": ("extract",),
    "hypothesis": ("rulesets",),
    "mpmath": ("rulesets",),
    "onnx": ("frontend", "runtime"),
    "onnxruntime": ("convert",),
    "pyopencl": ("codegen", "runtime"),
    "rich": ("commands", "convert", "terminal"),
    "typer": ("cli", "commands"),
}
HEAVY = ("egglog", "highspy", "hypothesis", "mpmath", "onnx.reference", "onnxruntime", "pyopencl")


@dataclass(frozen=True, slots=True)
class Module:
    """One source file of the package: dotted name below the package, and its path."""

    name: str
    path: Path

    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.path.read_text())


def modules() -> Iterator[Module]:
    """Every module of the package, each once, by its place in the checkout."""
    for folder in (PACKAGE, *LINKS):
        base = ROOT / folder
        for path in sorted(base.rglob("*.py")):
            if folder == PACKAGE and path.relative_to(base).parts[0] in LINKS:
                continue
            parts = (path.relative_to(base) if folder == PACKAGE else path.relative_to(ROOT)).parts
            dotted = [*parts[:-1], path.stem]
            named = dotted if dotted == ["__init__"] or path.stem != "__init__" else dotted[:-1]
            yield Module(".".join(named), path)


MODULES = {module.name: module for module in modules()}


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a tree imports; `from a import b` gives a.b."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom(module=module):
                yield f".{module or ''}"
            case _:
                pass


def own_imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that a tree imports, by their names below the package."""
    for name in imports(tree):
        if name.partition(".")[0] != PACKAGE:
            continue
        below = name.removeprefix(PACKAGE).removeprefix(".")
        while below and below not in MODULES:
            below = below.rpartition(".")[0]
        yield below or "__init__"


def without_type_checking(tree: ast.Module) -> ast.Module:
    """The tree less the bodies of `if TYPE_CHECKING:`."""

    class Remover(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST:
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return ast.Pass()
            return self.generic_visit(node)

    Remover().visit(tree)
    return tree


def lies_in(name: str, unit: str) -> bool:
    return name == unit or name.startswith(f"{unit}.")


def unit_of(name: str) -> str | None:
    """The unit of LAYERS that a module belongs to."""
    return max((u for u in LAYER_OF if lies_in(name, u)), key=len, default=None)


def may_import(importer: str, imported: str) -> bool:
    low, high = unit_of(imported), unit_of(importer)
    return low is not None and high is not None and (low == high or LAYER_OF[low] < LAYER_OF[high])


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_layer(name: str) -> None:
    assert unit_of(name), f"{name}: give it a place in LAYERS (and in docs/architecture.md)"


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_only_lower_layers(name: str) -> None:
    found = set(own_imports(MODULES[name].tree()))
    assert sorted(m for m in found if not may_import(name, m)) == []


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__main__"])
def test_module_does_not_import_the_package_root(name: str) -> None:
    assert "__init__" not in set(own_imports(MODULES[name].tree())) - {name}


@pytest.mark.parametrize("name", MODULES)
def test_module_keeps_libraries_behind_their_borders(name: str) -> None:
    tree = without_type_checking(MODULES[name].tree())
    used = {library.partition(".")[0] for library in imports(tree)} & set(BORDERS)
    assert not [x for x in sorted(used) if not any(lies_in(name, unit) for unit in BORDERS[x])]


@pytest.mark.parametrize("name", MODULES)
def test_module_begins_with_a_sentence(name: str) -> None:
    sentence = (ast.get_docstring(MODULES[name].tree()) or "").partition("\n\n")[0]
    assert sentence.endswith((".", ":")), f"{name} says {sentence!r}"


@pytest.mark.parametrize("name", MODULES)
def test_module_is_short(name: str) -> None:
    assert len(MODULES[name].path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*.py")), ids=lambda p: p.name)
def test_test_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("folder", LINKS)
def test_link_shows_the_folder(folder: str) -> None:
    link = ROOT / PACKAGE / folder
    assert link.is_symlink()
    assert link.resolve() == (ROOT / folder).resolve()


def loaded_by(statement: str) -> set[str]:
    """The modules of HEAVY that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*(set({HEAVY!r}) & sys.modules.keys()))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        PACKAGE,
        *(f"{PACKAGE}.{m}" for m in ("ir", "egraph", "egraph.snapshot", "rulesets", "extract")),
        *(f"{PACKAGE}.{m}" for m in ("frontend", "fusion", "codegen", "runtime", "cli")),
    ],
)
def test_import_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def packages() -> set[str]:
    """Every folder with an __init__.py, as an importable name."""
    found = {m.name for m in MODULES.values() if m.path.name == "__init__.py"}
    return {PACKAGE if name == "__init__" else f"{PACKAGE}.{name}" for name in found}


def test_every_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == packages()


@pytest.fixture(scope="module")
def wheel_entries(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names inside the wheel that a copy of this checkout builds."""
    source = tmp_path_factory.mktemp("source")
    built = tmp_path_factory.mktemp("wheel")
    for folder in (PACKAGE, *LINKS):
        unwanted = ignore_patterns("__pycache__", *(LINKS if folder == PACKAGE else ()))
        copytree(ROOT / folder, source / folder, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(built), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (wheel,) = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def place(path: Path) -> str:
    """Where a file of the checkout lies in the wheel."""
    relative = path.relative_to(ROOT)
    return str(relative if relative.parts[0] == PACKAGE else PACKAGE / relative)


def test_wheel_carries_every_module(wheel_entries: set[str]) -> None:
    assert {place(m.path) for m in MODULES.values()} <= wheel_entries


def test_wheel_carries_the_data_files(wheel_entries: set[str]) -> None:
    data = [ROOT / PACKAGE / "py.typed", *(ROOT / PACKAGE / "example_models").glob("*.onnx")]
    sources = [p for end in ("*.c", "*.h") for p in (ROOT / "codegen").glob(end)]
    sources += [ROOT / PACKAGE / "pages" / name for name in ("page.css", "page.js")]
    witnesses = [*(ROOT / "rulesets" / "witnesses").glob("*.txt")]
    assert len(data) == 3
    assert witnesses
    assert {place(path) for path in [*data, *sources, *witnesses]} <= wheel_entries


def test_wheel_puts_nothing_beside_the_package(wheel_entries: set[str]) -> None:
    top = {name.partition("/")[0] for name in wheel_entries}
    assert {name for name in top if not name.endswith(".dist-info")} == {PACKAGE}
