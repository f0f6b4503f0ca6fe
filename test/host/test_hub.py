#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints by their name on a hub: a small stand-in on the loopback serves one, and notes who asks for what.

    pack.py owner/tiny ──► huggingface_hub ──► stand-in (cuts lines, wants a token, has nothing)
"""

import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from litetern.host import hub
from litetern.model.common.progress import Progress
from litetern.model.paths import ROOT

from hostile_files import gguf
from tiny_checkpoint import write_checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.ThreadingHTTPServer):
    """repositories: {name: {file: bytes}}. asked: [(method, file, Range or None)]. cut: bytes after which an answer
    with weights ends, once."""
    daemon_threads = True

    def __init__(self, repositories):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories, self.asked, self.cut = repositories, [], None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, method="GET"):
        return [file for asked, file, _ in self.asked if asked == method]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        server, path = self.server, self.path.split("?")[0]
        listing = re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/main)?", path)
        if listing:
            files = server.repositories.get(listing[1])
            if files is None:
                return self.answer(404, b"{}", X_Error_Code="RepoNotFound")
            return self.answer(200, json.dumps({"id": listing[1], "modelId": listing[1], "sha": COMMIT, "tags": ["license:mit"], "siblings":
                [{"rfilename": name, "size": len(data)} for name, data in files.items()]}).encode(), Content_Type="application/json")
        match = re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/\w+/(.+)", path)
        data  = match and server.repositories.get(match[1], {}).get(match[2])
        if data is None:
            return self.answer(404, b"", X_Error_Code="EntryNotFound" if match and match[1] in server.repositories else "RepoNotFound")
        asked = self.headers.get("Range")
        server.asked.append((self.command, match[2], asked))
        start = int(re.match(r"bytes=(\d+)-", asked)[1]) if asked else 0
        about = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X_Repo_Commit": COMMIT, "Accept_Ranges": "bytes"}
        if asked:
            about["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if self.command == "GET" and server.cut is not None and match[2].endswith((".safetensors", ".gguf")):
            self.send_response(206 if asked else 200)
            for name, value in {"Content-Length": str(len(data) - start), **about}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data[start:start + server.cut])
            server.cut = None
            self.close_connection = True
            return None
        return self.answer(206 if asked else 200, data[start:], **about)

    do_HEAD = do_GET


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("hub")/"tiny")


@pytest.fixture
def stand_in(folder):
    files  = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    server = Hub({"owner/tiny": {**files, "README.md": b"#", "pytorch_model.bin": b"PK", "extra/model.onnx": b"x"}, "owner/files": {"a.gguf": gguf(), "b.gguf": gguf()},
        "owner/one": {"a.gguf": gguf(), "README.md": b"#"}, "owner/pickled": {"config.json": files["config.json"], "pytorch_model.bin": b"PK"},
        "owner/other": {"config.json": json.dumps({"architectures": ["MambaForCausalLM"]}).encode(), "model.safetensors": b"x"*1000},
        "owner/huge": {"config.json": json.dumps({**json.loads(files["config.json"]), "vocab_size": 200000, "hidden_size": 8192,
            "intermediate_size": 16384, "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128}).encode(), "model.safetensors": b"x"*1000}, "owner/empty": {"README.md": b"#"}})
    yield server
    server.shutdown()
    server.server_close()


def pack(stand_in, tmp_path, name, *options, **variables):
    """The command, with a cache of its own: (status, stdout, stderr)."""
    user = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run([sys.executable, str(ROOT/"host"/"pack.py"), name, "-o", str(tmp_path/"m.tern"), "--head", "int8", "--json", *options], cwd=tmp_path,
        capture_output=True, text=True, timeout=120, env={**user, "HF_ENDPOINT": stand_in.url, "HF_HOME": str(tmp_path/"cache"), **variables})
    return done.returncode, done.stdout, done.stderr


def refused(result):
    status, out, err = result
    line = err.splitlines()[-1]
    assert status == 1 and out == "" and "Traceback" not in err and line.startswith("pack.py: "), err
    return line


def test_packed_as_the_folder_is(stand_in, folder, tmp_path):
    status, out, err = pack(stand_in, tmp_path, "owner/tiny")
    assert status == 0 and json.loads(out)["name"] == "tiny", err
    image = (tmp_path/"m.tern").read_bytes()
    assert subprocess.run([sys.executable, str(ROOT/"host"/"pack.py"), str(folder), "-o", str(tmp_path/"f.tern"), "--head", "int8"], capture_output=True,
        timeout=120).returncode == 0
    assert image == (tmp_path/"f.tern").read_bytes()
    # What it is was said before the weights; only what is needed was asked for.
    lines = err.splitlines()
    assert lines.index(next(line for line in lines if line.startswith("owner/tiny: ") and line.endswith("licence mit"))) < lines.index("fetching model.safetensors")
    assert set(stand_in.files()) == {path.name for path in folder.iterdir()}


def test_a_second_run_fetches_nothing(stand_in, tmp_path):
    assert pack(stand_in, tmp_path, "owner/tiny")[0] == 0
    stand_in.asked.clear()
    assert pack(stand_in, tmp_path, "owner/tiny")[0] == 0
    assert stand_in.files("GET") == []


def test_without_the_hub_the_cache_serves(stand_in, tmp_path):
    offline = {"HF_HUB_OFFLINE": "1"}
    assert "not in the cache" in refused(pack(stand_in, tmp_path, "owner/tiny", **offline))
    assert pack(stand_in, tmp_path, "owner/tiny")[0] == 0
    stand_in.asked.clear()
    assert pack(stand_in, tmp_path, "owner/tiny", **offline)[0] == 0
    assert stand_in.asked == []


def test_a_fetch_that_was_cut_goes_on(stand_in, tmp_path):
    """In the same call or the next one, from where it was. The library keeps what it has in pieces of 10 MB."""
    data = np.random.default_rng(1).bytes(25 << 20)
    stand_in.repositories["owner/large"], stand_in.cut = {"a.gguf": data}, 15 << 20
    code = "from litetern.host.hub import local; from litetern.model.common.progress import Progress; print(local('owner/large', Progress()))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={**os.environ, "HF_ENDPOINT": stand_in.url, "HF_HOME": str(tmp_path/"cache")})
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert pathlib.Path(done.stdout.strip()).read_bytes() == data
    ranges = [int(re.match(r"bytes=(\d+)-", asked)[1]) for _, _, asked in stand_in.asked if asked]
    assert ranges and all(0 < start <= 15 << 20 for start in ranges)


def test_single_files(stand_in, tmp_path):
    status, _, err = pack(stand_in, tmp_path, "owner/files:b.gguf")
    assert status == 0, err
    assert stand_in.files() == ["b.gguf"]
    assert pack(stand_in, tmp_path, "owner/files/a.gguf")[0] == 0
    assert pack(stand_in, tmp_path, "owner/one")[0] == 0
    assert "several .gguf files: name one as owner/files:FILE (a.gguf, b.gguf" in refused(pack(stand_in, tmp_path, "owner/files"))
    assert "it has no file c.gguf" in refused(pack(stand_in, tmp_path, "owner/files:c.gguf"))


@pytest.mark.parametrize("name, line", [
    ("owner/nothing", "there is no such repository, or it is private"),
    ("owner/other",   "architecture MambaForCausalLM is not known"),
    ("owner/huge",    "does not fit"),
    ("owner/pickled", "its weights are pickled"),
    ("owner/empty",   "it has neither config.json nor a .gguf file"),
])
def test_refused_before_weights_are_fetched(stand_in, tmp_path, name, line):
    text = refused(pack(stand_in, tmp_path, name))
    assert line in text and f"{name}: no such file or folder, and from the hub: " in text
    assert not [file for file in stand_in.files() if file.endswith((".safetensors", ".bin"))]
    assert not (tmp_path/"m.tern").exists()


def test_gated(stand_in, tmp_path):
    stand_in.repositories["owner/gated"] = stand_in.repositories["owner/tiny"]
    plain = Handler.do_GET

    def gated(self):
        if "owner/gated" in self.path:
            return self.answer(401, b"{}", X_Error_Code="GatedRepo")
        return plain(self)
    stand_in.RequestHandlerClass = type("Gated", (Handler,), {"do_GET": gated, "do_HEAD": gated})
    assert "accept the terms" in refused(pack(stand_in, tmp_path, "owner/gated"))


def test_no_hub_there(tmp_path):
    class Nowhere:
        url = "http://127.0.0.1:9"
    assert "the hub cannot be reached" in refused(pack(Nowhere, tmp_path, "owner/tiny"))


def test_paths_win(folder, tmp_path, monkeypatch):
    """What is there is taken, whatever it is called; what cannot be a hub's name never asks one."""
    monkeypatch.setattr(hub, "_Repository", lambda *_: pytest.fail("asked"))
    monkeypatch.chdir(tmp_path)
    (tmp_path/"owner").mkdir()
    (tmp_path/"owner"/"tiny").mkdir()
    for name in ("owner/tiny", "nowhere", "./owner/none", "owner/m.tern", "a/b/c", "/owner/tiny", "~/tiny"):
        assert str(hub.local(name, Progress())) == name.removeprefix("./")
