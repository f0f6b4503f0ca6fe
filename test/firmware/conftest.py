#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

import pytest

from firmware_builds import BUILDS, firmware_build
from tiny_model import tiny_image


@pytest.fixture(params=list(BUILDS), scope="module")
def c(request):
    """A build; the checker has counted no subnormal when the module's tests are over."""
    build = firmware_build(request.param)
    yield build
    if request.param == "checker":
        assert build.variable("lanes_subnormals") == 0


@pytest.fixture(scope="module")
def host():
    return firmware_build("host C scalar")


@pytest.fixture(scope="module")
def tiny():
    """(bytes, QuantisedModel)."""
    return tiny_image()
