#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Frames and messages between host and board: the one description that `host/` and `firmware/` share.

Frame, on every transport ::

    FRAME [16] | payload [length ≤ PAYLOAD_MAX] | CRC-32 of both [4]

Both ends number the frames that carry a message (flag SEQUENCED) from 1 within a connection, and acknowledge in every frame the last number
up to which all have come. What is not acknowledged is sent again; what comes twice, early, damaged or from another connection is dropped.
HELLO opens a connection: it has number 1 and a connection number that the host draws. The board forgets the host before: texts of all
sessions, prompts that wait, requests without an answer, an upload's beginning (its bytes stay: see UPLOAD_BEGIN).

Every request has one answer, a refusal (ERROR) among them, and DONE means that it has happened: STOP and RESET of a session that generates
are done behind the event that ends the generation, UPLOAD_BEGIN is answered when every generation has ended. TOKENS and UPLOAD_DATA have
none of their own: GENERATE and UPLOAD_END, which close them, have it. While a GENERATE runs, another one for its session is refused.

A board checks every byte of an image, at its start and at UPLOAD_END. As long as that takes it answers no message but HELLO, tells who waits
for HELLO's or UPLOAD_END's answer how far it is (CHECKING), and asks for the others again when it is done: time-outs count from each sign.
"""

from litetern.model.common.layout import Struct
from litetern.model.formats.engine import END as END_REASON, PART

# Limits -------------------------------------------------------------------------------------------

PROTOCOL_VERSIONS    = {       # Of the messages; frames never change their layout.
    1 : "the first",
    2 : "HELLO forgets all sessions; one answer to every request, STOP's is DONE; DONE means done; logits belong to TOKEN alone; "
        "CHECKING",
}
PROTOCOL_VERSION     = max(PROTOCOL_VERSIONS)
PROTOCOL_VERSION_MIN = 2       # Oldest version that this side speaks, too.
FRAME_SYNC           = 0xE79C  # Two bytes that no text holds: console text may stand between frames.
PAYLOAD_MAX          = 1024    # Bytes. Header, payload and CRC fit a UDP datagram.
WINDOW               = 8       # Frames that may wait for their acknowledgement.
TOKENS_PER_FRAME     = 252     # Tokens of a MESSAGE_TOKENS.
LOGITS_PER_FRAME     = 252     # Logits of a MESSAGE_LOGITS.
UPLOAD_CHUNK         = 1008    # Image bytes of a MESSAGE_UPLOAD_DATA.

# Frame --------------------------------------------------------------------------------------------

# In 16-bit halves: Struct knows 32-bit members only, and both ends take them apart by shifts.
FRAME = Struct("frame_header", "Opens a frame.", [
    ("sync_length",  "u4", "FRAME_SYNC, payload bytes << 16."),
    ("numbers",      "u4", "Number of this frame (0: none), last number received in order << 16."),
    ("connection",   "u4", "Drawn by the host at HELLO."),
    ("type_check",   "u4", "Message type, flags << 8, low half of the CRC-32 of the 14 bytes before << 16."),
])
FRAME_CHECKED = 14  # Bytes of the header that its check covers.
CRC_BYTES     = 4

FLAG_SEQUENCED = 1  # Carries a message and wants an acknowledgement.
FLAG_GAP       = 2  # The sender of this frame misses the one after its acknowledgement.

# Messages -----------------------------------------------------------------------------------------

HELLO = Struct("message_hello", "Host: opens a connection.", [
    ("version_min", "u4", "Oldest protocol version of the host."),
    ("version_max", "u4", "Newest."),
])
IDENTITY = Struct("message_identity", "Board: answers HELLO, UPLOAD_END and IDENTIFY.", [
    ("version",         "u4",  "Protocol version that is spoken."),
    ("payload_max",     "u4",  "Longest payload."),
    ("window",          "u4",  "Frames that may wait for their acknowledgement."),
    ("firmware",        "S24", "Version of the firmware."),
    ("pl",              "u4",  "1: gateware runs the lists; 0: the firmware's C cores do."),
    ("pl_version",      "u4",  "Version register of the gateware."),
    ("pl_clock_hz",     "u4",  "Clock of the gateware, measured."),
    ("pl_ports",        "u4",  "Memory ports."),
    ("pl_build",        "S24", "Build of the bitstream, from the boot script."),
    ("sessions",        "u4",  "Sessions 0 … sessions - 1 exist."),
    ("context",         "u4",  "Positions of a session; 0 without a model."),
    ("vocab",           "u4",  "Tokens; 0 without a model."),
    ("image_limit",     "u4",  "Longest image that the board can hold."),
    ("image_bytes",     "u4",  "Length of the loaded image; 0: none."),
    ("image_crc",       "u4",  "Its header's CRC-32, which covers the body's: names the image."),
    ("problem",         "S96", "Why there is no model although bytes of one came, in a line; empty: none came, or there is one."),
    ("name",            "S64", "Name of the model."),
])
UPLOAD_BEGIN = Struct("message_upload_begin", "Host: an image shall come. Ends all generation; until UPLOAD_END or HELLO there is none. Answer: UPLOAD_STATUS.", [
    ("bytes", "u4", "Its length."),
    ("crc",   "u4", "Its header's CRC-32. With the length of an upload that was cut off it goes on there."),
])
UPLOAD_STATUS = Struct("message_upload_status", "Board: where an upload stands; the host goes on, or back, to there.", [
    ("offset", "u4", "Bytes that are there; the next chunk starts here."),
])
UPLOAD_DATA = Struct("message_upload_data", "Host: a chunk; the bytes follow. The first one replaces the model. UPLOAD_STATUS answers one out of place, once until "
    "the right one comes.", [
    ("offset", "u4", "Of the first byte."),
])
TOKENS = Struct("message_tokens", "Host: tokens of a prompt; uint32 follow. They wait for the session's next GENERATE, which takes them in any case.", [
    ("session", "u4", "Session."),
    ("offset",  "u4", "Number of the first one in the prompt: 0 starts a new prompt."),
])
GENERATE = Struct("message_generate", "Host: reads the waiting prompt and generates. Answer: TOKEN … END, or ERROR.", [
    ("session",            "u4", "Session."),
    ("request",            "u4", "Any number; events carry it."),
    ("count",              "u4", "Tokens of the prompt, all sent."),
    ("max_tokens",         "u4", "Tokens to sample."),
    ("temperature",        "f4", "0: greedy."),
    ("top_k",              "u4", "0: all."),
    ("top_p",              "f4", "0 to 1."),
    ("repetition_penalty", "f4", "1: none."),
    ("seed_low",           "u4", "Random numbers."),
    ("seed_high",          "u4", "Likewise."),
    ("ignore_eos",         "u4", "1: goes on after the end-of-text token."),
    ("flags",              "u4", "1: LOGITS after each TOKEN."),
])
GENERATE_LOGITS = 1
SESSION = Struct("message_session", "Host: STOP ends a session's generation at the next token, RESET forgets its text, too. Answer: DONE.", [
    ("session", "u4", "Session."),
])
PARTS = PART.names
TOKEN = Struct("message_token", "Board: TOKEN, a token was sampled; PROMPT, a token of the prompt went through.", [
    ("session",       "u4", "Session."),
    ("request",       "u4", "Of GENERATE."),
    ("token",         "u4", "Token."),
    ("position",      "u4", "Positions in the session's cache."),
    ("prompt_done",   "u4", "Prompt tokens through."),
    ("prompt_tokens", "u4", "Of so many."),
    ("generated",     "u4", "Tokens sampled for this request."),
    ("end",           "u4", "enum engine_end: " + ", ".join(f"{value} {name}" for value, name in enumerate(END_REASON.names)) + "."),
    *((f"cycles_{part}", "u4", "PL cycles, doorbells to last results.") for part in PARTS),
    ("pl_bytes",      "u4", "Bytes that the PL read."),
    ("microseconds",  "u4", "Time of this token on the board."),
])
END = Struct("message_end", "Board: generation ended without a new token.", [
    ("session",   "u4", "Session."),
    ("request",   "u4", "Of GENERATE."),
    ("position",  "u4", "Positions in the session's cache."),
    ("generated", "u4", "Tokens sampled for this request."),
    ("end",       "u4", "enum engine_end."),
])
LOGITS = Struct("message_logits", "Board: a piece of the logits of the last token; float32 follow.", [
    ("session",  "u4", "Session."),
    ("request",  "u4", "Of GENERATE."),
    ("position", "u4", "As in the TOKEN before."),
    ("offset",   "u4", "Number of the first one."),
])
STATS = Struct("message_stats", "Board: answers STATS. Counters since the start.", [
    ("uptime_ms",       "u4", "Time."),
    ("tokens",          "u4", "Tokens that went through the model."),
    ("frames_received", "u4", "Good frames."),
    ("frames_damaged",  "u4", "Frames and headers that failed their check."),
    ("frames_dropped",  "u4", "Good frames that came twice, early, or for another connection."),
    ("frames_sent",     "u4", "Frames."),
    ("frames_again",    "u4", "Of these sent again."),
    ("line_errors",     "u4", "Errors that the transport's hardware saw."),
    ("pl_errors",       "u4", "Descriptor lists that failed."),
])
ERROR = Struct("message_error", "Board: a request was refused; a line of UTF-8 text follows.", [
    ("type",    "u4", "Type of the message that was refused."),
    ("session", "u4", "Session, or 0."),
    ("request", "u4", "Of GENERATE, or 0."),
    ("code",    "u4", "enum link_error."),
])
DONE = Struct("message_done", "Board: a request without another answer is done.", [
    ("type",    "u4", "Type of the request."),
    ("session", "u4", "Session, or 0."),
])
CHECKING = Struct("message_checking", "Board: an image is being checked, and this is how far it is; HELLO or UPLOAD_END is answered behind it.", [
    ("done",  "u4", "Bytes that are checked."),
    ("bytes", "u4", "Of so many."),
])
EMPTY = Struct("message_empty", "No members.", [])

# Types (value, name, layout). Hosts send those below 0x80.
TYPES = (
    (0x00, "ACK",           EMPTY),
    (0x01, "HELLO",         HELLO),
    (0x02, "IDENTIFY",      EMPTY),
    (0x03, "UPLOAD_BEGIN",  UPLOAD_BEGIN),
    (0x04, "UPLOAD_DATA",   UPLOAD_DATA),
    (0x05, "UPLOAD_END",    EMPTY),
    (0x06, "TOKENS",        TOKENS),
    (0x07, "GENERATE",      GENERATE),
    (0x08, "STOP",          SESSION),
    (0x09, "RESET",         SESSION),
    (0x0A, "STATS",         EMPTY),
    (0x81, "IDENTITY",      IDENTITY),
    (0x82, "UPLOAD_STATUS", UPLOAD_STATUS),
    (0x83, "TOKEN",         TOKEN),
    (0x84, "PROMPT",        TOKEN),
    (0x85, "END",           END),
    (0x86, "LOGITS",        LOGITS),
    (0x87, "STATS_REPLY",   STATS),
    (0x88, "ERROR",         ERROR),
    (0x89, "DONE",          DONE),
    (0x8A, "CHECKING",      CHECKING),
)
LAYOUTS = {value: layout for value, _, layout in TYPES}
NAMES   = {value: name for value, name, _ in TYPES}
VALUES  = {name: value for value, name, _ in TYPES}
STRUCTS = tuple(dict.fromkeys([FRAME, *(layout for _, _, layout in TYPES if layout is not EMPTY)]))

# Reasons of an ERROR; engine and image errors keep their own text behind it.
ERRORS = (
    ("version",  "No common protocol version."),
    ("type",     "Unknown message."),
    ("length",   "Message of the wrong length."),
    ("upload",   "Upload too long, not begun, not complete, or under way."),
    ("image",    "The image was refused."),
    ("model",    "No model is loaded."),
    ("prompt",   "Prompt too long, or not all of its tokens have come."),
    ("engine",   "The engine refused the request or failed."),
)
