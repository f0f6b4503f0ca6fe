#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What holds the project together: set-up, scripts under any Python, generated documents, the rooms' borders."""

import ast
import collections
import graphlib
import importlib.metadata
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import litetern

from litetern.model.setup import environment
from litetern.model.setup.environment import ROOT

ROOMS = {  # What each room may import of ours.
    "model"    : {"model"},
    "cores"    : {"cores", "model"},
    "soc"      : {"soc", "cores", "firmware", "model"},  # The virtual board builds the firmware that it runs.
    "firmware" : {"firmware", "host", "model", "soc"},   # Its Python generates headers from them.
    "host"     : {"host", "model", "soc"},
}

FILES = 15  # On one level of a room, at most.

TRACKED = subprocess.run(["sh", "-c", "git ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60).stdout.split("\n")[:-1]
PYTHON  = [ROOT/name for name in TRACKED if name.endswith(".py") and (ROOT/name).exists()] or \
    [path for room in [*ROOMS, "bench", "doc", "test"] for path in (ROOT/room).rglob("*.py")]

# Rooms --------------------------------------------------------------------------------------------


def imports(path):
    """Top-level names of the modules that a file imports; of ours ("litetern.model"), the room."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
            [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        yield from (".".join(name.split(".")[:2 if name.startswith("litetern.") else 1]) for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_what_they_may(room):
    ours     = {*ROOMS, "bench", "test", "doc"}
    breaches = [f"{path.relative_to(ROOT)}: {name}" for path in PYTHON if path.is_relative_to(ROOT/room)
        for name in imports(path) if name.removeprefix("litetern.") in ours - ROOMS[room]]
    assert breaches == []


def test_no_module_has_two_names():
    """Ours are imported as modules of `litetern` and as nothing else: in one process, no module is there twice."""
    breaches = [f"{path.relative_to(ROOT)}: {name}" for path in PYTHON for name in imports(path) if name in (*ROOMS, "bench", "doc", "test")]
    assert breaches == []
    code = "import sys; sys.path[0] = %r; from litetern.model.setup import environment; environment.enter(); print([p for p in sys.path if p == %r])" % (str(ROOT), str(ROOT))
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout == "[]\n"
    assert litetern.__path__ == [str(ROOT)]


def test_no_module_imports_itself_in_a_circle():
    """Not even by an import in a function. What a script's preamble imports does not count."""
    modules = {".".join(["litetern", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path for path in PYTHON if path.is_relative_to(ROOT)
        and path.relative_to(ROOT).parts[0] in ROOMS}
    def needs(path):
        tree     = ast.parse(path.read_text())
        preamble = {node for block in tree.body if isinstance(block, ast.If) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node not in preamble:
                for name in (f"{node.module}.{alias.name}" for alias in node.names):
                    yield from {name if name in modules else node.module} & set(modules)
    order = graphlib.TopologicalSorter({name: set(needs(path)) - {name} for name, path in modules.items()})
    assert len(list(order.static_order())) == len(modules)  # CycleError names the circle.


def test_no_room_is_crowded():
    """Files on one level, so that a name can be found by looking."""
    counts = collections.Counter(str(pathlib.PurePosixPath(name).parent) for name in TRACKED if not name.endswith("__init__.py"))
    assert {folder: count for folder, count in counts.items() if count > FILES} == {}


def test_every_package_is_in_setup():
    """What files import, even in a function, setup.py brings: as a requirement or with an extra."""
    name     = lambda text: re.sub(r"[-_.]+", "-", text).lower()
    required = {name(package) for package in re.findall(r'"([\w.-]+)==', (ROOT/"setup.py").read_text())}
    brought  = {"setuptools", "serial"}  # By pip, by pyserial.
    ours     = {"litetern", *(f"litetern.{room}" for room in (*ROOMS, "bench")), *(path.stem for path in PYTHON)}
    owners   = importlib.metadata.packages_distributions()
    lacking  = {f"{path.relative_to(ROOT)}: {module}" for path in PYTHON for module in imports(path)
        if module not in sys.stdlib_module_names and module not in ours and not {name(o) for o in owners.get(module, [module])} & (required | brought)
        and not name(module).startswith(tuple(required))}  # Python 3.10 knows few owners: cocotb_tools is cocotb's.
    assert lacking == set()


def test_extras_exist():
    """Every extra that scripts and documents tell the user to set up."""
    extras = set(re.findall(r'^        "(\w+)" +: ', (ROOT/"setup.py").read_text(), re.M))
    assert "convert" in extras
    for path in [*PYTHON, ROOT/"README.md", ROOT/"Makefile", *(ROOT/"doc").glob("*.md")]:
        text = path.read_text()
        for extra in re.findall(r'enter\(.*extra="(\w+)"', text) + re.findall(r"EXTRAS=(\w+)", text):
            assert extra in extras, f"{path.name}: {extra}"


def test_every_file_names_its_licence():
    without = [str(path.relative_to(ROOT)) for path in PYTHON if "SPDX-License-Identifier: BSD-2-Clause" not in path.read_text()[:400]]
    assert len(PYTHON) > 20 and without == []

FACTS = {  # Texts of which a single file of ours may have the definition.
    r'^VERSION = "[\d.]+"$|FIRMWARE_VERSION +"|version += "[\d.]+"' : "model/common/version.py",
    r"0xDF0D"                                     : "soc/zynq/memory_map.py",
    r"^MULTIPLIER_BITS +="                        : "model/resident/matrix.py",
    r"define \w*(SESSIONS_MAX|CACHE_LINE|ENGINE_LINE) |^LINE_BEATS" : None,  # Generated of soc/boards.py.
    r"calibrate\.FILE|/FILE$"                     : "model/calibrate.py",
    r"\bIMAGE_LIMIT += "                          : "soc/zynq/memory_map.py",
}


@pytest.mark.parametrize("pattern", FACTS)
def test_facts_are_said_once(pattern):
    files = [path for name in TRACKED if name.split("/")[0] in (*ROOMS, "setup.py") and (path := ROOT/name).suffix in (".py", ".c", ".h", ".cpp", ".S")
        and path.exists()]
    where = [path.relative_to(ROOT).as_posix() for path in files if re.search(pattern, path.read_text(), re.M)]
    assert where == ([FACTS[pattern]] if FACTS[pattern] else [])

# Scripts ------------------------------------------------------------------------------------------


def test_commands_start_under_a_bare_python():
    """Run by a Python without any package, from another folder, a script finds the project's own environment."""
    bare = [sys._base_executable, "-S"]  # Not of .venv, no site-packages.
    assert subprocess.run([*bare, "-c", "import numpy"], capture_output=True, timeout=60).returncode != 0
    scripts = [path for path in PYTHON if path.name != "make_golden.py" and re.search(r"^    from litetern.model.setup import environment; environment.enter\(", path.read_text(), re.M)]
    named   = [path for path in PYTHON if re.search(r'^if __name__ == "__main__":$', path.read_text(), re.M) and path.parent.relative_to(ROOT).as_posix() in
        ("bench", "host", "model", "soc") and path.name != "bootstrap.py"]
    assert ROOT/"host"/"chat.py" in named and set(named) <= set(scripts), "without the preamble of model/setup/environment.py"
    if not (environment.VENV/"bin"/"python").exists():
        pytest.fail("the tests run in .venv: make test sets it up")
    for script in scripts:
        done = subprocess.run([*bare, str(script), "--help"], cwd="/", capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stdout.startswith("usage:"), f"{script}: {done.stderr}"


def test_missing_environment_is_one_line(tmp_path):
    """Without .venv the user is told the command that makes it."""
    for name in ("litetern.py", "model/__init__.py", "model/paths.py", "model/common/__init__.py", "model/common/progress.py", "model/setup/__init__.py",
            "model/setup/bootstrap.py", "model/setup/environment.py", "model/setup/packages.py"):
        (tmp_path/name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path/name).write_text((ROOT/name).read_text())
    (tmp_path/"script.py").write_text("from litetern.model.setup import environment; environment.enter('numpy', 'no_such_package', extra='train')\n")
    done = subprocess.run([sys.executable, "-S", str(tmp_path/"script.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"script.py: needs numpy, no_such_package: run `make setup EXTRAS=train` in {tmp_path}\n"
    done = subprocess.run([sys.executable, "-S", str(tmp_path/"script.py"), "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage: script.py [options]\n")
    assert f"run `make setup EXTRAS=train` in {tmp_path}" in done.stdout

def test_ctrl_c_while_modules_load(tmp_path):
    """A line, no traceback, and the status of a program that the signal ended."""
    (tmp_path/"slow.py").write_text("import sys; sys.path[0] = %r\nfrom litetern.model.setup import environment; environment.enter()\nraise KeyboardInterrupt\n" % str(ROOT))
    done = subprocess.run([sys.executable, str(tmp_path/"slow.py")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "\nslow.py: stopped\n")

def test_make_help_names_every_target():
    shown  = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, timeout=60).stdout
    listed = re.search(r"^\.PHONY: (.*)$", (ROOT/"Makefile").read_text(), re.M)[1].split()
    for target in set(listed) - {"help"}:
        assert f"make {target} " in shown, target

# Documents ----------------------------------------------------------------------------------------


def test_formats_document_is_current():
    done = subprocess.run([sys.executable, str(ROOT/"doc"/"formats.py"), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_commands_of_the_documents_exist():
    """Every script that README and doc/ tell the user to run is there."""
    for document in [ROOT/"README.md", *(ROOT/"doc").glob("*.md")]:
        for script in re.findall(r"python3? ((?:host|model|soc|bench|test|doc|firmware)/[\w/]+\.py)", document.read_text()):
            assert (ROOT/script).exists(), f"{document.name}: {script}"
