#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Set-up on anybody's machine: pip's own files, homes that cannot be written, dead mirrors, half-made environments.

A project of one small package stands for ours: the same modules of model/ and the same pip, nothing from a network.
"""

import ast
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile

import pytest

from litetern.model.paths import ROOT
from litetern.model.setup import bootstrap, environment, packages

MODULES = ("litetern", "model/__init__", "model/paths", "model/common/__init__", "model/common/progress", "model/setup/__init__", "model/setup/bootstrap",
    "model/setup/environment", "model/setup/packages")  # What set-up needs.
PACKAGE = "ternlib"  # What the project requires.

# How the project and its package are built: a wheel by hand, so that no other package is needed.
BACKEND = '''import os, zipfile

NAME, REQUIRES = {name!r}, {requires!r}

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {before}
    info  = f"{{NAME}}-1.0.dist-info"
    files = {{f"{{NAME}}/__init__.py": "", f"{{info}}/METADATA": f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: 1.0\\n{{REQUIRES}}\\n",
        f"{{info}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n", f"{{info}}/RECORD": ""}}
    with zipfile.ZipFile(os.path.join(folder, f"{{NAME}}-1.0-py3-none-any.whl"), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return f"{{NAME}}-1.0-py3-none-any.whl"

build_editable = build_wheel
'''
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "{name}"\nversion = "1.0"\n'
C_ERROR   = "src/fast.c:3:10: fatal error: nothing.h: No such file or directory"

# Helpers ------------------------------------------------------------------------------------------


def write_project(folder, name, requires="", before="pass"):
    """A project that builds by BACKEND; `before`: what its build does first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder/"backend.py").write_text(BACKEND.format(name=name, requires=requires, before=before))
    (folder/"pyproject.toml").write_text(PYPROJECT.format(name=name).split("[project]")[0])
    return folder


def source(folder, **options):
    """A folder for --find-links that holds the package as source only."""
    project = write_project(folder/"project", PACKAGE, **options)
    (project/"PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    with tarfile.open(folder/f"{PACKAGE}-1.0.tar.gz", "w:gz") as archive:
        archive.add(project, f"{PACKAGE}-1.0")
    return folder


class Project:
    """The scratch project with its `.venv`, and a user with files and variables of pip's."""
    def __init__(self, folder):
        self.root, self.home, self.links = folder/"project", folder/"home", folder/"links"
        write_project(self.root, "litetern", f"Requires-Dist: {PACKAGE}==1.0\nRequires-Dist: never==1; extra == \"train\"\n")
        (self.root/"setup.py").write_text("")
        for name in MODULES:
            (self.root/name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT/f"{name}.py", self.root/f"{name}.py")
        self.links.mkdir()
        namespace = {}
        exec(BACKEND.format(name=PACKAGE, requires="", before="pass"), namespace)
        namespace["build_wheel"](self.links)

    @property
    def site(self):
        return next((self.root/".venv").glob("lib/python*/site-packages"))

    def setup(self, config="", *extras, python=sys.executable, **variables):
        """`make setup` of a user whose pip.conf says `config`: (status, output)."""
        (self.home/".config"/"pip").mkdir(parents=True, exist_ok=True)
        (self.home/".config"/"pip"/"pip.conf").write_text(config)
        user = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "XDG_", "PYTHON", "VIRTUAL_ENV"))}
        done = subprocess.run([python, "-m", "litetern.model.setup.bootstrap", *extras], cwd=self.root, env={**user, "HOME": str(self.home), **variables},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.returncode, done.stdout

    @property
    def reach(self):
        """Variables by which pip finds the package."""
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.links.as_uri()}

    def works(self):
        """Whether its Python has the package, in its own folder."""
        done = subprocess.run([self.root/".venv"/"bin"/"python", "-I", "-c", f"import {PACKAGE}, litetern; print({PACKAGE}.__file__)"],
            capture_output=True, text=True, timeout=60)
        return done.stdout.startswith(str(self.root/".venv"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("set up"))  # With a blank in its path.
    status, out = project.setup(**project.reach)
    assert status == 0 and project.works(), out
    return project


@pytest.fixture
def without(project):
    """The project, whose `.venv` lacks the package."""
    for path in project.site.glob(f"{PACKAGE}*"):
        shutil.rmtree(path)
    return project


def refused(result):
    """The reason of a set-up that must end in one line, behind what it announces."""
    status, out = result
    lines = out.splitlines()
    assert status == 1 and len(lines) <= 4 and lines[0].startswith("Setting up") and lines[-1].startswith("setup: "), out
    return lines[-1].removeprefix("setup: pip could not install the packages: ")

# What pip's user has said -------------------------------------------------------------------------


ELSEWHERE = {
    "files"     : ("[global]\nuser = yes\nprefix = {there}\nquiet = 3\n[install]\ntarget = {there}\nroot = {there}\nno-deps = true\n"
        "require-hashes = true\nonly-binary = :all:\nconstraint = {there}/none.txt\ndry-run = true\n", {}),
    "variables" : ("", {"PIP_USER": "1", "PIP_TARGET": "{there}", "PIP_PREFIX": "{there}", "PIP_NO_DEPS": "1", "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONFIG_FILE": "{there}/none.conf", "PYTHONUSERBASE": "{there}"}),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_packages_go_to_the_environment(without, name, tmp_path):
    """Wherever the user's other projects want them."""
    config, variables = ELSEWHERE[name]
    spell  = lambda text: text.replace("{there}", str(tmp_path/"there"))
    status, out = without.setup(spell(config), **without.reach, **{name: spell(value) for name, value in variables.items()})
    assert status == 0 and without.works() and not (tmp_path/"there").exists(), out


def test_how_packages_are_reached_stays(monkeypatch, tmp_path):
    """Index, certificates, proxy: of the files and variables, the later ones first."""
    (tmp_path/"pip.conf").write_text("[global]\nindex-url = http://a/\ntimeout = 7\nuser = yes\n[install]\nindex-url = http://b/\n"
        "extra-index-url =\n    http://c/\n    http://d/\n[download]\nproxy = http://e/\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"PIP_CONFIG_FILE": str(tmp_path/"pip.conf"), "PIP_TIMEOUT": "9", "PIP_TARGET": "/there", "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    found = packages.pip_environment([sys.executable, "-I", "-m", "pip"])
    assert found["PIP_INDEX_URL"] == "http://b/" and found["PIP_EXTRA_INDEX_URL"] == "http://c/ http://d/" and found["PIP_TIMEOUT"] == "9"
    assert found["PIP_CONFIG_FILE"] == os.devnull and not {"PIP_USER", "PIP_TARGET", "PIP_PROXY"} & set(found)


def test_a_configuration_that_cannot_be_read(without):
    assert "cannot be read" in without.setup("[global\n")[1].splitlines()[-1]


def test_a_home_that_cannot_be_written(without):
    """Caches go to build/; no home at all is one that cannot be written."""
    for variables in ({"HOME": "/dev/null/home"}, {"HOME": ""}):
        shutil.rmtree(without.site/PACKAGE, ignore_errors=True)
        status, out = without.setup(**without.reach, **variables)
        assert status == 0 and without.works(), out


def test_caches_of_tools(monkeypatch, tmp_path):
    """The user's where it can be written, else one under build/: Zig, pip, Yosys and others follow XDG_CACHE_HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    environment.use_cache()
    assert "XDG_CACHE_HOME" not in os.environ and (tmp_path/".cache").is_dir()
    for name, value in (("HOME", "/dev/null/home"), ("XDG_CACHE_HOME", "/dev/null/cache"), ("XDG_CACHE_HOME", "relative")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            environment.use_cache()
            assert os.environ["XDG_CACHE_HOME"] == str(ROOT/"build"/"cache")
            (tmp_path/"a.c").write_text("int main(void) { return 0; }\n")
            subprocess.run([sys.executable, "-m", "ziglang", "cc", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True, timeout=120)
            context.delenv("XDG_CACHE_HOME")

# Causes -------------------------------------------------------------------------------------------


def test_a_dead_mirror_is_the_cause(without):
    with socket.create_server(("127.0.0.1", 0)) as server:  # Nobody listens there any more.
        port = server.getsockname()[1]
    config = f"[global]\nindex-url = http://127.0.0.1:{port}/simple\nretries = 0\n"
    assert refused(without.setup(config)) == "the package index cannot be reached (Connection refused)"


def test_a_version_that_does_not_exist_is_the_cause(without):
    assert refused(without.setup("[global]\nno-index = true\n")) == f"No matching distribution found for {PACKAGE}==1.0"


def test_an_error_of_a_compiler_is_the_cause(without, tmp_path):
    before = f"import sys; print('one'); print({C_ERROR!r}, file=sys.stderr); raise SystemExit('error: command cc failed with exit code 1')"
    config = f"[global]\nno-index = true\nfind-links = {source(tmp_path, before=before)}\n"
    assert refused(without.setup(config)) == f"{PACKAGE} cannot be built: {C_ERROR}"


def test_a_build_that_raises_is_the_cause(without, tmp_path):
    config = f"[global]\nno-index = true\nfind-links = {source(tmp_path, before='raise RuntimeError(chr(99) + chr(46))')}\n"
    assert refused(without.setup(config)) == f"{PACKAGE} cannot be built: RuntimeError: c."


RETRYING = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
STEP     = ("  error: subprocess-exited-with-error\n  \u2570\u2500> [2 lines of output]\n      {}\n      [end of output]\n"
    "ERROR: Failed building wheel for x\n")
REACHED  = "the package index cannot be reached"
CAUSES   = {  # What pip prints, and the cause.
    f"{RETRYING}'NewConnectionError('<object at 0x7f>: Failed to establish a new connection: [Errno -2] Name or service not known')': /x/\n"
    "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\nERROR: No matching distribution found for x==1":
        f"{REACHED} (Name or service not known)",
    f"{RETRYING}\"ReadTimeoutError(\"HTTPSConnectionPool(host='a', port=443): Read timed out. (read timeout=15)\")\": /x/\nERROR: No matching x":
        f"{REACHED} (Read timed out)",
    f"{RETRYING}'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407 Authentication Required'))': /x/\nERROR: No y":
        f"{REACHED} (407 Authentication Required)",
    f"{RETRYING}'SSLError(SSLCertVerificationError(1, '[SSL: X] certificate verify failed: self-signed certificate (_ssl.c)'))'":
        f"{REACHED} (certificate verify failed: self-signed certificate)",
    "ERROR: HTTP error 403 while getting a\nERROR: Could not install requirement x because of HTTP error 403": f"{REACHED} (HTTP error 403)",
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n":
        "Could not install packages due to an OSError: [Errno 28] No space left on device",
    "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help":
        "Cannot install a and b because these package versions have conflicting dependencies.",
    STEP.format("error: command 'cc' failed: No such file or directory"):
        "x cannot be built: error: command 'cc' failed: No such file or directory",
    STEP.format(f"{RETRYING}'NewConnectionError('[Errno 111] Connection refused')': /y/\n      ERROR: No matching z"):
        f"{REACHED} (Connection refused)",
    "Killed": "Killed",
    "": "it says nothing",
}


@pytest.mark.parametrize("text", CAUSES, ids=lambda text: CAUSES[text][:40])
def test_causes(text):
    assert packages.reason(text.split("\n")) == CAUSES[text]


def test_causes_of_apt():
    lines = "Err:1 http://mirror x InRelease\n  Could not connect to mirror:80 - connect (111: Connection refused)\nReading package lists..."
    wants = "E: Unable to locate package x"
    assert packages.apt_reason([*lines.split("\n"), wants]) == "Could not connect to mirror:80 - connect (111: Connection refused)"
    assert packages.apt_reason(["Reading", wants, "E: second"]) == wants and packages.apt_reason([]) == "it says nothing"

# Half-made environments ---------------------------------------------------------------------------


def test_second_setup_does_nothing(project):
    project.setup(**project.reach)
    assert project.setup("[global]\nno-index = true\n") == (0, "")


HALF = {
    "empty package" : lambda p: (p.site/PACKAGE/"__init__.py").unlink(),
    "no list"       : lambda p: [(p.site/f"{PACKAGE}-1.0.dist-info"/"RECORD").unlink(), *map(shutil.rmtree, p.site.glob("litetern*"))],
    "no Python"     : lambda p: [(p.root/".venv"/"bin"/"python").unlink(), (p.root/".venv"/"bin"/"python").symlink_to("/none/python")],
    "only a stamp"  : lambda p: [shutil.rmtree(p.root/".venv"/name) for name in ("bin", "lib")],
}


@pytest.mark.parametrize("name", HALF)
def test_half_made_environments_are_mended(project, name):
    project.setup(**project.reach)
    HALF[name](project)
    status, out = project.setup(**project.reach)
    assert status == 0 and "Environment ready" in out and project.works(), out


def test_nothing_is_stamped_that_is_not_there(without):
    """After a set-up that failed, and after a pip that put things elsewhere."""
    assert without.setup("[global]\nno-index = true\n")[0] == 1
    assert without.setup("[global]\nno-index = true\n")[0] == 1
    assert packages.lacking(without.root/".venv", ()) == [f"{PACKAGE}==1.0"]
    assert packages.lacking(without.root/".venv", ("train",)) == [f"{PACKAGE}==1.0", "never==1"]


def test_every_pip_leaves_what_the_project_requires(monkeypatch, tmp_path):
    """Debian 12's pip (23.0), where setup.py is all there is, would link the project without its metadata: `lacking` found nothing."""
    asked = []
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "_python_works", lambda: True)
    monkeypatch.setattr(environment, "_pip", asked.extend)
    with pytest.raises(environment.SetupError, match="lacks litetern"):
        environment.make()
    assert asked == ["install", "--use-pep517", "-e", "."]


def test_stamp_holds_what_was_made(monkeypatch, tmp_path):
    """Extras that are there stay; nothing is done for them."""
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "SYSTEM_TOOLS", {})
    (tmp_path/"bin").mkdir()
    (tmp_path/"bin"/"python").touch()
    (tmp_path/"lib"/"python3.11"/"site-packages"/"x-1.dist-info").mkdir(parents=True)
    (tmp_path/"lib"/"python3.11"/"site-packages"/"x-1.dist-info"/"RECORD").write_text("x-1.dist-info/RECORD,,\n")
    (tmp_path/".made").write_text(f"{environment._recipe()} test train\nx-1\n")
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: pytest.fail("nothing is to be done"))
    environment.make(("test",))
    environment.make(())
    monkeypatch.setattr(environment.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, "no venv\n"))
    with pytest.raises(environment.SetupError, match="no venv"):
        environment.make(("bench",))

# Tools and Pythons --------------------------------------------------------------------------------


def test_missing_tool_is_installed_or_named(monkeypatch, capsys):
    """As root, apt-get brings what pip cannot; everybody else reads the command to type."""
    calls = []
    monkeypatch.setattr(environment, "SYSTEM_TOOLS", {"test": [("no-such-compiler", "gcc-none", "the second ARM compiler")]})
    monkeypatch.setattr(environment.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(environment.SetupError, match="second ARM compiler is missing: run `sudo apt-get install -y .* gcc-none`"):
        environment.make(("test",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(environment.subprocess, "run", lambda command, **_: calls.append(command) or
        subprocess.CompletedProcess(command, 100, "Reading\nE: Unable to locate package gcc-none\n"))
    with pytest.raises(environment.SetupError, match="failed: E: Unable to locate package gcc-none"):
        environment.make(("test",))
    assert [call[1] for call in calls] == ["update", "install"] and calls[1][-1] == "gcc-none"
    assert "Installing gcc-none" in capsys.readouterr().out


def test_a_python_that_is_too_old(monkeypatch):
    """One line: what make runs first can be read by any of them."""
    for name in ("litetern", "model/__init__", "model/setup/__init__", "model/setup/bootstrap"):
        text = (ROOT/f"{name}.py").read_text()
        assert text.isascii() and not re.search(r"\bf[\"']|:=|->|print ", text)
        ast.parse(text, feature_version=(3, 4))
    monkeypatch.setattr(sys, "version_info", (2, 7, 18))
    line = r"^setup: Python \S+ is too old: LiteTern needs 3\.10 or newer \(`make PYTHON=python3\.x \.\.\.` [\w ]*\)$"
    with pytest.raises(SystemExit, match=line):
        bootstrap.check()


def test_make_runs_the_bootstrap():
    recipe = (ROOT/"Makefile").read_text()
    assert recipe.count("$(PYTHON) -m ") == recipe.count("$(PYTHON) -m litetern.model.setup.bootstrap") == 3
