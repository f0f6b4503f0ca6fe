/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The packed model as model/formats/image.py writes it: checks that nothing in it can lead the engine astray. */

#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "softmax.h"

struct image_header;

enum image_error {
    IMAGE_OK = 0,
    IMAGE_ERROR_SHORT,             /* Fewer bytes than header and records. */
    IMAGE_ERROR_MAGIC,
    IMAGE_ERROR_VERSION,
    IMAGE_ERROR_SIZE,              /* Not as long as the header says. */
    IMAGE_ERROR_LIMIT,             /* Larger than the memory for it. */
    IMAGE_ERROR_HEADER_CRC,
    IMAGE_ERROR_BODY_CRC,
    IMAGE_ERROR_SHAPE,             /* Widths that no model of this kind has. */
    IMAGE_ERROR_ATTENTION,         /* A softmax resolution that there is not. */
    IMAGE_ERROR_OFFSET,            /* A tensor lies outside of the image. */
    IMAGE_ERROR_VALUE,             /* A scale or step that would leave the numbers that all builds share. */
};

/*
 * Checks the first `bytes` bytes at `image` (4-byte aligned): magic, version, length, header CRC, shapes, bounds of every tensor;
 * with `body` the body's CRC, too. `limit`: bytes that the memory for images holds. Returns enum image_error.
 */
uint32_t image_check(const void *image, size_t bytes, size_t limit, int body);

/* How far the check of a body has come; zeros begin it. */
struct image_body {
    size_t   done;                 /* Bytes of the image, header and records among them. */
    uint32_t crc;
};

/* Checks the next `share` bytes of the body of an image whose header is good: IMAGE_OK until the last, then what the CRC says. */
uint32_t image_check_body(const void *image, size_t share, struct image_body *body);

/* Whether the rows of the layers' groups have steps of their own; otherwise matrices have one scale. */
int image_row_steps(const struct image_header *header);

/* Whether a token ends generation. */
int image_ends(const struct image_header *header, uint32_t token);

/* The softmax's resolution of an image; engine_init() asks the attention core for it. */
struct softmax image_softmax(const struct image_header *header);

/* One clear line for people. */
const char *image_error_text(uint32_t error);

/* Bytes of header and layer records, once the first sizeof(struct image_header) bytes are here; 0 if they are no header of ours. */
size_t image_header_bytes(const void *image);

#endif
