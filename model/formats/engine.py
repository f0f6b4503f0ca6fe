#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The engine's interface: what the firmware's token loop is told, what runs its lists, what it says. The firmware gets litetern/engine.h from here."""

from litetern.model.common.interface import Enum, Function, Interface

# Programmable logic -------------------------------------------------------------------------------

CORE = Enum("engine_core", "ENGINE_CORE_", "Cores of a lane, as its control register numbers them.", [
    ("MATMUL",    "Rows of weights times vectors."),
    ("ATTENTION", "Keys and values."),
    ("PROBE",     "Of tests alone."),
])
PL_STATUS = Enum("engine_pl_status", "ENGINE_PL_", "Of a lane's list.", [
    ("BUSY",  "The list runs."),
    ("DONE",  "All results have landed."),
    ("ERROR", "The list ended with an error."),
    ("RANGE", "The list named memory that is not allowed, and ended before it was touched."),
])
RANGE = Enum("engine_range", "ENGINE_RANGE_", "Memory that lists may name: those to be read in the order of the accelerator's registers, then those to be written.", [
    ("IMAGE",   "Read: weights."),
    ("ARENA",   "Read: lists, headers, x, KV caches."),
    ("RESULTS", "Written: results in the arena."),
    ("ON_CHIP", "Written: results in engine_pl.results."),
], count="ENGINE_RANGES")

# What a C core says of its list. Gateware has a bit of the same name in a lane's status, a core's behind the core's own name; C cores wait
# for no memory, so that they have no time-outs.
LANE_ERROR = [
    ("READER_DESCRIPTOR", "Length 0. Ends the list."),
    ("READER_RESPONSE",   "Address outside of the memory. Ends the list."),
    ("WRITER_OVERRUN",    "More results than the limit. Ends the list."),
    ("NO_CORE",           "No such core. Ends the list."),
    ("READER_RANGE",      "List or piece outside of the ranges for reading. Ends the list."),
    ("WRITER_RANGE",      "Destination outside of those for writing. Ends the list."),
]
CORE_ERROR = [
    ("MAGIC",      "Header without its magic: the rest of the list is dropped."),
    ("ROWS",       "Number of rows. The record is drained, the next one is right; likewise the following."),
    ("BEATS",      "Beats of a row."),
    ("FORMAT",     "Format of the weights."),
    ("VECTORS",    "Number of vectors."),
    ("REDUCE",     "Reduction of the results."),
    ("QUERIES",    "Number of queries."),
    ("LENGTH",     "Rows that a query sees."),
    ("BUFFER",     "V record that does not match the K record that filled its buffer."),
    ("TRUNCATED",  "The list ended within a record."),
    ("MULTIPLIER", "Mantissa wider than the core's."),
]
LIST_ERROR = Enum("cores_error", "CORES_ERROR_", "Why a C core's list failed: bits.", [*LANE_ERROR, *CORE_ERROR], bits=True)


def status_names(core, errors):
    """Names of the bits in a lane's status register for bits of `LIST_ERROR` of a core (its name)."""
    own = {name.lower() for name, _ in CORE_ERROR}
    return [f"{core}_{name}" if name in own else name for name in LIST_ERROR.of(errors)]


# Numbers ------------------------------------------------------------------------------------------

SOFTMAX = Interface("softmax", "A resolution of the softmax (model/numerics/circuits.py: AttentionParameters).", [
    ("score_bits",    "u4", "Scores are signed integers of so many bits."),
    ("steps_per_nat", "u4", "Score steps per natural unit."),
    ("exp_bits",      "u4", "Bits of a weight."),
    ("mantissa_bits", "u4", "Bits of a multiplier's mantissa."),
])
SAMPLING = Interface("sampling_settings", "How a token is chosen (model/numerics/sampling.py).", [
    ("temperature",        "f4", "0: greedy; else 0.01 to 100."),
    ("top_k",              "u4", "0: all SAMPLING_CANDIDATES_MAX."),
    ("top_p",              "f4", "0 to 1."),
    ("repetition_penalty", "f4", "0.1 to 10; 1 changes nothing."),
    ("ignore_eos",         "u4", "1: generation goes on after the end-of-text token."),
    ("reserved",           "u4", "0."),
    ("seed",               "u8", "Of the random numbers."),
])

# What runs lists ----------------------------------------------------------------------------------

_CONTEXT, _PORT = ("pointer", "context"), ("u4", "port")

PL = Interface("engine_pl", "What runs descriptor lists: gateware behind its driver, or the C cores (cores_pl.h). start() and status() may do a share of the work "
        "themselves, but return soon. Results are acknowledged in order: the first progress() bytes at the destination are final.", [
    ("context",         "pointer", "Handed to each function."),
    ("memory",          "address", "Pointer that bus address 0 stands for."),
    ("results",         "address", "Memory for results that is better than the arena's; those that do not fit go to the arena."),
    ("ports",           "u4",      "1 or 2."),
    ("queries_max",     "u4",      "Query vectors of one attention pass."),
    ("rows_max",        "u4",      "Longest context of the attention core."),
    ("row_weights_max", "u4",      "Longest row of the matmul core."),
    ("topk_max",        "u4",      "Longest shortlist of the matmul core; 0 without."),
    ("timeout_us",      "u4",      "A list without a new result for so long has failed."),
    ("results_bytes",   "u4",      "Of `results`; 0: there is none."),
    ("start",           Function(None, _CONTEXT, _PORT, ("u4", "core"), ("u4", "list"), ("u4", "destination"), ("u4", "limit")), "Doorbell."),
    ("progress",        Function("u4", _CONTEXT, _PORT), "Bytes of results that have landed."),
    ("status",          Function("u4", _CONTEXT, _PORT), "enum engine_pl_status."),
    ("cycles",          Function("u4", _CONTEXT, _PORT), "PL cycles from doorbell to last result of the last list; 0 if unknown."),
    ("abort",           Function(None, _CONTEXT, _PORT), "Gives up the running list."),
    ("clean",           Function(None, ("data", "data"), ("size", "bytes")), "CPU's writes reach memory."),
    ("invalidate",      Function(None, ("data", "data"), ("size", "bytes")), "CPU reads from memory again."),
    ("microseconds",    Function("u4"), "Free-running clock that wraps."),
    ("allow",           Function(None, _CONTEXT, ("u4", "range"), ("u4", "first"), ("u4", "last")), "Bytes of enum engine_range; first > last: none."),
    ("resolve",         Function("u4", _CONTEXT, (SOFTMAX, "softmax")), "1 if the attention core has this resolution, or takes it up."),
])

# What is said -------------------------------------------------------------------------------------

ERROR = Enum("engine_error", "ENGINE_ERROR_", "Why something was refused or failed; the text is for people.", [
    ("NONE",      "no error"),
    ("IMAGE",     "the image is damaged"),
    ("ALIGNMENT", "image or buffers are misplaced in memory"),
    ("MEMORY",    "the memory is too small for the model's buffers"),
    ("PL",        "the model needs more than this accelerator was built for"),
    ("SESSION",   "no such session"),
    ("BUSY",      "the session generates already"),
    ("CONTEXT",   "the prompt is longer than what is left of the context"),
    ("TOKEN",     "the prompt holds a token outside of the vocabulary"),
    ("SETTINGS",  "a sampling setting is out of range"),
    ("EMPTY",     "the prompt is empty"),
    ("TIMEOUT",   "the accelerator gave no result in time"),
    ("LIST",      "the accelerator refused its work"),
    ("SHORTLIST", "this accelerator keeps no shortlist as long as the model's hybrid head needs"),
    ("RANGE",     "the accelerator refused an address outside of the model's memory"),
    ("SOFTMAX",   "the image was packed for another softmax resolution than this accelerator's"),
], count="ENGINE_ERRORS")
PART = Enum("engine_part", "ENGINE_PART_", "What the PL computes, in the order of a token.", [
    ("QKV",       "Queries, keys and values."),
    ("ATTENTION", "Scores, softmax, mix of the values."),
    ("O",         "Output of the attention."),
    ("GATE_UP",   "First half of the FFN."),
    ("DOWN",      "Second half."),
    ("HEAD",      "Logits."),
], count="ENGINE_PARTS")
EVENT_KIND = Enum("engine_event_kind", "ENGINE_EVENT_", "What a call of engine_poll() did.", [
    ("IDLE",   "No session has work."),
    ("BUSY",   "Work goes on: poll again."),
    ("PROMPT", "A prompt token went through; no token was sampled."),
    ("TOKEN",  "A token was sampled. `end` tells whether it is the last one."),
    ("END",    "Generation ended without a new token; `end` tells why."),
    ("ERROR",  "The session's request failed: `error`; the session is reset."),
])
END = Enum("engine_end", "ENGINE_END_", "Why a generation ended.", [
    ("NONE",    "It goes on."),
    ("EOS",     "End-of-text token."),
    ("LENGTH",  "max_tokens reached."),
    ("CONTEXT", "No position left for the token just sampled."),
    ("STOPPED", "By engine_stop()."),
])
EVENT = Interface("engine_event", "What happened.", [
    ("kind",          "u4", "enum engine_event_kind."),
    ("session",       "u4", "Whose."),
    ("token",         "u4", "TOKEN: the sampled token; PROMPT: the one that went through."),
    ("position",      "u4", "Positions in the session's cache."),
    ("prompt_done",   "u4", "Prompt tokens through."),
    ("prompt_tokens", "u4", "Their number."),
    ("generated",     "u4", "Tokens sampled for this request."),
    ("end",           "u4", "enum engine_end."),
    ("error",         "u4", "enum engine_error."),
    ("pl_cycles",     f"u4[{len(PART)}]", "TOKEN, PROMPT: cycles of this token by enum engine_part; of two ports the longer one."),
    ("pl_bytes",      "u4", "TOKEN, PROMPT: bytes that the PL read by its lists (headers, x, weights, KV), at most UINT32_MAX."),
    ("microseconds",  "u4", "TOKEN, PROMPT: time of this token."),
])

ENUMS      = (CORE, PL_STATUS, RANGE, LIST_ERROR, ERROR, PART, EVENT_KIND, END)
INTERFACES = (SOFTMAX, SAMPLING, PL, EVENT)
