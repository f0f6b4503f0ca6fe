#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Importers: one small file per checkpoint family, each giving a `model.checkpoint.Checkpoint`."""

import pathlib

from model.importers.huggingface import load_huggingface


def load_checkpoint(path):
    """Checkpoint of a folder (Hugging Face layout). Raises ValueError with one clear line for anything else."""
    path = pathlib.Path(path)
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder (a checkpoint is a folder with config.json and *.safetensors)")
    if not path.is_dir():
        raise ValueError(f"{path}: not a checkpoint that is known (a folder with config.json and *.safetensors)")
    return load_huggingface(path)
