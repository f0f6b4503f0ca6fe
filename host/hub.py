#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints of a hub by their names, where a path is asked for: `huggingface_hub` fetches what the importers read, and nothing else.

    1bitLLM/bitnet_b1_58-large            a folder: configuration, tokenizer, safetensors
    Qwen/Qwen2-0.5B-GGUF:model.gguf       a single file, all parts of a split one

The library keeps files in the user's cache and asks again for what has changed; HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE are its own.
"""

import pathlib
import re

from litetern.model.common import console
from litetern.model.common.printable import printable
from litetern.model.importers.gguf_file import PART
from litetern.model.importers.huggingface import check_configuration
from litetern.model.importers.shards import INDEX, SINGLE

NAME    = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+?)(?:[:/](?P<file>[\w./ -]+\.gguf))?")
CONFIG  = "config.json"
BESIDE  = ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "chat_template.jinja", "calibration.json")
TIMEOUT = 30  # Seconds that a hub may be silent.


def local(name, progress, limit=None):
    """Path of a checkpoint: `name` itself where there is such a file or folder, else what a hub has under it.

    progress : `litetern.model.common.progress.Progress`. limit: bytes of an image; what cannot fit is refused before its weights are fetched.
    ValueError with one line for what is neither, or what cannot be had.
    """
    path  = pathlib.Path(name)
    match = NAME.fullmatch(str(name))
    if path.exists() or not match or path.suffix in (".tern", ".bin", ".safetensors", ".json") or str(name).startswith((".", "~")):
        return path
    try:
        return _Repository(match["repository"], progress).fetch(match["file"], limit)
    except ValueError as error:
        raise ValueError(f"{printable(str(name))}: no such file or folder, and from the hub: {error}") from error


class _Repository:
    """A repository of the hub; errors of the library become ValueErrors of one line."""
    def __init__(self, repository, progress):
        self.name, self.progress = repository, progress

    def _ask(self, function, *arguments, **options):
        from huggingface_hub import errors
        try:
            return function(*arguments, **options)
        except errors.GatedRepoError:
            raise ValueError("its owner wants to be asked first: accept the terms on the hub's page, then set HF_TOKEN (or `hf auth login`)") from None
        except errors.RepositoryNotFoundError:
            raise ValueError("there is no such repository, or it is private: HF_TOKEN says who asks") from None
        except (errors.LocalEntryNotFoundError, errors.IncompleteSnapshotError, errors.OfflineModeIsEnabled) as error:
            raise ValueError(f"not in the cache, and the hub cannot be asked ({console.one_line(error)[:160]})") from None
        except errors.EntryNotFoundError:
            raise ValueError(f"it has no file {arguments[1] if len(arguments) > 1 else CONFIG}") from None
        except errors.HFValidationError as error:
            raise ValueError(console.one_line(error)) from None
        except (errors.HTTPError, OSError) as error:
            raise ValueError(f"the hub cannot be reached or refuses ({console.one_line(error)[:200]})") from None

    def _get(self, file):
        """Path of a file in the user's cache, fetched where it is not there or not whole."""
        import huggingface_hub
        progress, stage = self.progress, f"fetching {printable(file)}"

        class Bar:
            """What the library tells its bar of progress goes to ours."""
            def __init__(self, *_, total=None, initial=0, **__):
                self.total, self.done = total, initial

            def update(self, count=1):
                self.done += count
                progress.show(stage, self.done, self.total)

            def __enter__(self):
                progress.show(stage, self.done, self.total)
                return self

            def __exit__(self, *_):
                return None

            close = refresh = set_description = set_postfix = reset = lambda self, *_, **__: None

        return pathlib.Path(self._ask(huggingface_hub.hf_hub_download, self.name, file, etag_timeout=TIMEOUT, tqdm_class=Bar))

    def _listing(self):
        """({file: bytes or None}, licence or "") as the hub says; None where it is not to be asked."""
        import huggingface_hub

        from huggingface_hub import constants
        if constants.HF_HUB_OFFLINE:
            return None, ""
        self.progress.show("asking the hub")
        info    = self._ask(huggingface_hub.HfApi().model_info, self.name, files_metadata=True, timeout=TIMEOUT)
        licence = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "")
        return {sibling.rfilename: sibling.size for sibling in info.siblings or ()}, licence

    def fetch(self, file, limit):
        files, licence = self._listing()
        if files is None:
            return self._cached(file)
        if file is None and CONFIG not in files:
            single = [name for name in files if name.endswith(".gguf")]
            if not single:
                raise ValueError(f"it has neither {CONFIG} nor a .gguf file")
            if len({(PART.fullmatch(name) or {"stem": name})["stem"] for name in single}) > 1:
                raise ValueError(f"it has several .gguf files: name one as {self.name}:FILE ({', '.join(map(printable, sorted(single)[:6]))} …)")
            file = sorted(single)[0]
        if file is not None:
            if file not in files:
                raise ValueError(f"it has no file {printable(file)}")
            part = PART.fullmatch(file)
            wanted = [name for name in files if part and (other := PART.fullmatch(name)) and other["stem"] == part["stem"]] or [file]
            self._say(wanted, files, licence)
            return [self._get(name) for name in sorted(wanted)][sorted(wanted).index(file)]
        folder = self._get(CONFIG).parent
        check_configuration(folder, **({} if limit is None else {"limit": limit}))
        for name in BESIDE:
            if name in files:
                self._get(name)
        weights = [SINGLE] if SINGLE in files else sorted(name for name in files if name.endswith(".safetensors") and "/" not in name)
        if not weights:
            pickled = any(name.endswith((".bin", ".pt", ".pth")) for name in files)
            raise ValueError("it has no *.safetensors" + (": its weights are pickled, which can run any code and is never loaded" if pickled else ""))
        if INDEX in files and weights != [SINGLE]:
            self._get(INDEX)
        self._say(weights, files, licence)
        for name in weights:
            self._get(name)
        return folder

    def _cached(self, file):
        """What is in the cache, where the hub is not to be asked."""
        import huggingface_hub
        get = lambda name: pathlib.Path(self._ask(huggingface_hub.hf_hub_download, self.name, name, local_files_only=True))
        return get(file) if file else get(CONFIG).parent

    def _say(self, wanted, files, licence):
        """A line of what will be fetched, before it is."""
        sizes = [files[name] for name in wanted]
        size  = console.bytes_text(sum(sizes)) if all(isinstance(size, int) for size in sizes) else f"{len(sizes)} files"
        self.progress.show(f"{self.name}: {size}, licence {printable(licence) if licence else 'not stated'}")
