#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Packages of an environment: pip without what its user has told it of other places, why it failed, what is there.

Standard library only.
"""

import ast
import os
import re
import shutil
import subprocess

# Configuration ------------------------------------------------------------------------------------

# Options of pip that say how packages are reached. All others (user, target, prefix, no-deps, …) are about other environments.
REACH = ("index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "cert", "client-cert", "proxy", "timeout",
    "default-timeout", "retries", "cache-dir", "no-cache-dir", "keyring-provider", "use-feature", "use-deprecated")


def pip_environment(pip):
    """Variables for runs of `pip` (its command): of its user's files and variables what `REACH` lists, nothing else."""
    own   = ("PIP_USER", "PIP_GLOBAL", "PIP_SITE", "PIP_QUIET", "PIP_ISOLATED")  # Options of `pip config`, too.
    asked = {**os.environ, **dict.fromkeys(own, "0")}
    done  = subprocess.run([*pip, "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=asked, timeout=60)
    if done.returncode:
        raise ValueError(reason(done.stdout.splitlines()))
    entries = [line.partition("=") for line in done.stdout.splitlines() if re.match(r"[\w:.-]+='|[\w:.-]+=\"", line)]
    options = {}
    for section in ("global.", "install.", ":env:."):  # The later one decides.
        options.update({name[len(section):]: ast.literal_eval(value) for name, _, value in entries if name.startswith(section)})
    if options.get("retries") == "0":
        options["retries"] = "1"  # Without any, pip does not say that it reaches nothing.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    for name in set(REACH) & set(options):
        environment[f"PIP_{name.upper().replace('-', '_')}"] = " ".join(options[name].split())
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}

# Reasons ------------------------------------------------------------------------------------------

NETWORK  = re.compile(r"connection broken by|Max retries exceeded|Caused by|HTTP error|Errno -\d+")
WORDS    = re.compile(r"\[Errno -?\d+\] ([^'\")]+)|([Rr]ead timed out|[Cc]onnect(?:ion)?(?: to \S+)? timed out)|"
    r"(certificate verify failed[^'\")(]*)|Tunnel connection failed: ([^'\")]+)|(HTTP error \d+|too many \d+ error responses)")
COMPILER = re.compile(r":\d+: (?:fatal )?error: |undefined reference to")
FAILED   = re.compile(r"(?:error|Error|Exception): |No such file or directory|command not found")
OUTPUT   = re.compile(r"\[\d+ lines? of output\]")
FOR      = re.compile(r"(?:Failed building (?:wheel|editable) for|^ *Collecting) ([\w.-]*\w)|"
    r"^ *(?:Processing|Downloading|Using cached) (?:\S*/)?([\w.]+)-\d")
VAGUE    = re.compile(r"subprocess-exited-with-error|Failed building|Failed to build|ResolutionImpossible|Could not find a version|"
    r"did not run successfully|exit(?:ed with| status| code)|metadata-generation-failed")


def _of_step(lines):
    """The reason in what a package's own build printed, which pip quotes between two marks; "" where there is none."""
    text  = [line.strip(" \N{BOX DRAWINGS LIGHT VERTICAL}|") for line in lines]
    start = next((i for i, line in enumerate(text) if OUTPUT.search(line)), len(text))
    end   = next((i for i, line in enumerate(text) if i > start and line.startswith("[end of output]")), len(text))
    text  = [line for line in text[start + 1:end] if not VAGUE.search(line)]
    # What a compiler says first counts, and of a traceback its last line.
    return next((line for line in text if COMPILER.search(line)), next((line for line in reversed(text) if FAILED.search(line)), ""))


def reason(lines):
    """The line of pip's output (lines, str) that says why it failed: a dead mirror, a compiler's error, a version that does not exist."""
    step = _of_step(lines)
    if step and not NETWORK.search(step):
        names = [found[1] or found[2] for found in map(FOR.search, lines) if found]
        return f"{names[-1] if names else 'a package'} cannot be built: {step}"
    for found in map(WORDS.search, filter(NETWORK.search, lines)):
        if found:
            return f"the package index cannot be reached ({next(filter(None, found.groups())).strip()})"
    errors = [line[line.index("ERROR:") + 6:].strip() for line in lines if "ERROR:" in line]
    clear  = [line for line in errors if not VAGUE.search(line)]
    return (clear or errors or [line.strip() for line in lines if line.strip()][-1:] or ["it says nothing"])[0]


def apt_reason(lines):
    """The same of apt-get's output: its first error, a mirror before what is missing because of it."""
    errors = [line.strip() for line in lines if line.startswith(("E: ", "Err:", "W: Failed", "  "))]
    dead   = [line for line in errors if re.search(r"Could not (?:connect|resolve)|Temporary failure|timed out|Connection refused", line)]
    return next(iter(dead or [line for line in errors if line.startswith("E: ")] or lines[-1:]), "it says nothing").strip()

# What is there ------------------------------------------------------------------------------------


def _folders(venv):
    return [folder for site in sorted(venv.glob("lib/python*/site-packages")) for folder in sorted(site.glob("*.dist-info"))]


def _whole(folder):
    """Whether a package's own files are there, as far as their first folders show; pip writes the list last."""
    try:
        files = [line.split(",", 1)[0].strip('"') for line in (folder/"RECORD").read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return False
    return all((folder.parent/file).exists() for file in files if file.count("/") <= 1 and "__pycache__" not in file)


def there(venv):
    """Names ("numpy-2.2.6") of the packages of an environment (Path) that are whole."""
    return {folder.name[:-len(".dist-info")] for folder in _folders(venv) if _whole(folder)}


def remove_broken(venv):
    """Packages that are not whole become packages that pip knows nothing of."""
    for folder in _folders(venv):
        if not _whole(folder):
            shutil.rmtree(folder)


def lacking(venv, extras):
    """Pinned requirements ("numpy==2.2.6") of the project and its extras that an environment does not hold."""
    own = [folder for folder in _folders(venv) if folder.name.startswith("litetern-")]
    if not own:
        return ["litetern"]
    normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
    found  = {normal(name): version.partition("+")[0] for name, _, version in (package.partition("-") for package in there(venv))}
    text   = (own[0]/"METADATA").read_text(encoding="utf-8")
    wanted = re.findall(r"^Requires-Dist: *([\w.-]+) *\(?==([\w.]+)\)?(?:.*extra *== *[\"'](\w+)[\"'])?", text, re.M)
    return [f"{name}=={version}" for name, version, extra in wanted if (not extra or extra in extras) and found.get(normal(name)) != version]
