#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

PYTHON ?= python3
EXTRAS ?=
ARGS   ?=

RUN = .venv/bin/python

.PHONY: help setup chat test test-full clean

help:
	@echo "make chat       talk to a ternary model on the virtual PYNQ-Z1  (ARGS='--pl c' and other options of host/chat.py)"
	@echo "make test       run the tests                                   (ARGS='-k image' and other options of pytest)"
	@echo "make test-full  run the long tests too, and the trainer's"
	@echo "make setup      only set up .venv                               (EXTRAS='train bench' adds packages)"
	@echo "make clean      delete build/; .venv stays"
	@echo
	@echo "Each sets up what it needs first. PYTHON=python3.x chooses the Python (3.10 or newer)."

setup:
	@$(PYTHON) -m litetern.model.setup.bootstrap $(EXTRAS)

# Job control gives the chat the terminal's Ctrl-C for itself: make would take it as the end.
chat: setup
	@if [ -t 0 ]; then set -m; fi; $(RUN) host/chat.py $(ARGS)

test:
	@$(PYTHON) -m litetern.model.setup.bootstrap test
	@$(RUN) -m pytest $(ARGS)

test-full:
	@$(PYTHON) -m litetern.model.setup.bootstrap test train bench
	@$(RUN) -m pytest -m "full or not full" $(ARGS)

clean:
	rm -rf build
