/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "crc32.h"
#include "image.h"
#include "litetern/formats.h"
#include "litetern/numerics.h"

#define HEADS_MAX 2048             /* Bounds heads·head_dim to 32 bits. */

/* Checks ----------------------------------------------------------------------------------------*/

static const struct image_layer *layers_of(const struct image_header *h)
{
    return (const struct image_layer *)(h + 1);
}

static int width(uint64_t value)
{
    return value >= 8 && value % 8 == 0 && value <= ROW_WEIGHTS_MAX;
}

static int head(const struct image_header *h)
{
    switch (h->head_format) {
    case IMAGE_HEAD_INT8:
        return h->head_planes == 0 && h->shortlist == 0;
    case IMAGE_HEAD_TERNARY:
    case IMAGE_HEAD_HYBRID:
        if (h->head_planes == 0 || h->head_planes > HEAD_PLANES_MAX || h->head_planes*h->hidden > ROW_WEIGHTS_MAX)
            return 0;
        if (h->head_format == IMAGE_HEAD_TERNARY)
            return h->shortlist == 0;
        return h->shortlist > 0 && h->shortlist <= TOPK_MAX && h->shortlist <= h->vocab;
    default:
        return 0;
    }
}

/* Tokens around texts. */
static int marks(const struct image_header *h)
{
    if (h->add_bos > 1 || h->ends_count > IMAGE_ENDS_MAX)
        return 0;
    for (uint32_t i = 0; i < h->ends_count; i++)
        if (h->ends[i] >= h->vocab)
            return 0;
    return h->bos < h->vocab || (h->bos == IMAGE_NO_TOKEN && !h->add_bos);
}

static int shape(const struct image_header *h)
{
    if (h->heads == 0 || h->heads > HEADS_MAX || h->kv_heads == 0 || h->heads % h->kv_heads)
        return 0;
    if (h->head_dim == 0 || h->head_dim % 8 || h->head_dim > HEAD_DIM_MAX)
        return 0;
    if (!width(h->hidden) || !width(h->ffn) || !width((uint64_t)h->heads*h->head_dim))
        return 0;
    if (h->vocab < 2 || h->vocab > IMAGE_VOCAB_MAX || !marks(h))
        return 0;
    if (h->layers == 0 || h->context == 0 || h->context > IMAGE_CONTEXT_MAX)
        return 0;
    if (h->body_format > FORMAT_INT8 || h->row_steps > (h->body_format == FORMAT_TERNARY))
        return 0;
    return h->activation < ACTIVATIONS_COUNT && h->sub_norms <= 1 && head(h);
}

/* 1 if count elements lie between the records and the end of the image. */
static int inside(const struct image_header *h, uint32_t offset, uint64_t count, uint32_t element)
{
    uint64_t start = sizeof(*h) + (uint64_t)h->layers*sizeof(struct image_layer);

    return offset % IMAGE_ALIGNMENT == 0 && offset >= start && offset + count*element <= h->image_bytes;
}

static uint64_t ternary(uint64_t rows, uint32_t columns)
{
    return rows*((columns + TERNARY_PER_BEAT - 1)/TERNARY_PER_BEAT)*BEAT_BYTES;
}

/* A group and the steps of its rows. */
static int group(const struct image_header *h, uint32_t offset, uint32_t steps, uint64_t rows, uint32_t columns)
{
    if (image_row_steps(h) && !inside(h, steps, rows, 4))
        return 0;
    return inside(h, offset, h->body_format == FORMAT_TERNARY ? ternary(rows, columns) : rows*columns, 1);
}

static int offsets(const struct image_header *h)
{
    const struct image_layer *l = layers_of(h);
    uint64_t table = (uint64_t)h->vocab*h->hidden, angles = (uint64_t)h->context*(h->head_dim/2);
    uint32_t q_width = h->heads*h->head_dim, kv_width = h->kv_heads*h->head_dim;

    if (!inside(h, h->embedding, table, 1) || !inside(h, h->embedding_steps, h->vocab, 4))
        return 0;
    if (!inside(h, h->final_norm, h->hidden, 4))
        return 0;
    if ((h->head_format != IMAGE_HEAD_TERNARY || h->head) && (!inside(h, h->head, table, 1) || !inside(h, h->head_steps, h->vocab, 4)))
        return 0;
    if (h->head_format != IMAGE_HEAD_INT8 &&
        (!inside(h, h->ternary_head, ternary(h->vocab, h->head_planes*h->hidden), 1) || !inside(h, h->ternary_steps, h->vocab, 4)))
        return 0;
    if (!inside(h, h->cosine, angles, 4) || !inside(h, h->sine, angles, 4))
        return 0;
    if (!inside(h, h->tokenizer, h->tokenizer_bytes, 1) || !inside(h, h->metadata, h->metadata_bytes, 1))
        return 0;
    for (uint32_t i = 0; i < h->layers; i++, l++) {
        if (!inside(h, l->attn_norm, h->hidden, 4) || !inside(h, l->o_norm, q_width, 4))
            return 0;
        if (!inside(h, l->ffn_norm, h->hidden, 4) || !inside(h, l->down_norm, h->ffn, 4))
            return 0;
        if (!inside(h, l->k_steps, h->kv_heads, 4) || !inside(h, l->v_steps, h->kv_heads, 4))
            return 0;
        if (!group(h, l->qkv, l->qkv_steps, (uint64_t)q_width + 2*(uint64_t)kv_width, h->hidden))
            return 0;
        if (!group(h, l->o, l->o_steps, h->hidden, q_width) || !group(h, l->down, l->down_steps, h->hidden, h->ffn))
            return 0;
        if (!group(h, l->gate_up, l->gate_up_steps, 2*(uint64_t)h->ffn, h->hidden))
            return 0;
    }
    return 1;
}

/* 0 for NaN, too. */
static int sane(float value)
{
    return value >= IMAGE_FLOAT_LOW && value <= IMAGE_FLOAT_HIGH;
}

/* Steps of rows or heads. */
static int steps(const struct image_header *h, uint32_t offset, uint32_t count)
{
    const float *values = (const float *)((const uint8_t *)h + offset);

    while (count && sane(values[count - 1]))
        count--;
    return count == 0;
}

static uint32_t magnitude(float value)
{
    union { float value; uint32_t bits; } u = {value};

    return u.bits & 0x7FFFFFFF;
}

/* Gains and tables: 0, or neither subnormal nor so large that products leave the range. Bits compare, as loads may flush subnormals. */
static int gains(const struct image_header *h, uint32_t offset, uint64_t count)
{
    const float *values = (const float *)((const uint8_t *)h + offset);
    const uint32_t low = magnitude(OPS_TINY), high = magnitude(IMAGE_FLOAT_HIGH);

    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = magnitude(values[i]);
        if (bits && (bits < low || bits > high))
            return 0;
    }
    return 1;
}

static int layer_values(const struct image_header *h, const struct image_layer *l)
{
    uint32_t q_width = h->heads*h->head_dim, kv_width = h->kv_heads*h->head_dim;

    if (!sane(l->q_scale) || !sane(l->k_scale) || !sane(l->v_scale) || !sane(l->o_scale))
        return 0;
    if (!sane(l->gate_scale) || !sane(l->up_scale) || !sane(l->down_scale))
        return 0;
    if (!gains(h, l->attn_norm, h->hidden) || !gains(h, l->o_norm, q_width))
        return 0;
    if (!gains(h, l->ffn_norm, h->hidden) || !gains(h, l->down_norm, h->ffn))
        return 0;
    if (!steps(h, l->k_steps, h->kv_heads) || !steps(h, l->v_steps, h->kv_heads))
        return 0;
    if (!image_row_steps(h))
        return 1;
    return steps(h, l->qkv_steps, q_width + 2*kv_width) && steps(h, l->o_steps, h->hidden) &&
           steps(h, l->gate_up_steps, 2*h->ffn) && steps(h, l->down_steps, h->hidden);
}

static int values(const struct image_header *h)
{
    const struct image_layer *l = layers_of(h);
    uint64_t angles = (uint64_t)h->context*(h->head_dim/2);

    if (!sane(h->norm_eps) || !gains(h, h->final_norm, h->hidden) || !gains(h, h->cosine, angles) || !gains(h, h->sine, angles))
        return 0;
    if (!steps(h, h->embedding_steps, h->vocab))
        return 0;
    if ((h->head_format != IMAGE_HEAD_TERNARY || h->head) && !steps(h, h->head_steps, h->vocab))
        return 0;
    if (h->head_format != IMAGE_HEAD_INT8 && !steps(h, h->ternary_steps, h->vocab))
        return 0;
    for (uint32_t i = 0; i < h->layers; i++)
        if (!layer_values(h, &l[i]))
            return 0;
    return 1;
}

/* Image -----------------------------------------------------------------------------------------*/

int image_row_steps(const struct image_header *header)
{
    return header->row_steps || header->body_format == FORMAT_INT8;
}

int image_ends(const struct image_header *header, uint32_t token)
{
    for (uint32_t i = 0; i < header->ends_count; i++)
        if (header->ends[i] == token)
            return 1;
    return 0;
}

size_t image_header_bytes(const void *image)
{
    const struct image_header *h = image;

    if (h->magic != IMAGE_MAGIC || h->version != IMAGE_VERSION || h->layers > IMAGE_LAYERS_MAX)
        return 0;
    return sizeof(*h) + h->layers*sizeof(struct image_layer);
}

struct softmax image_softmax(const struct image_header *header)
{
    return (struct softmax){
        .score_bits    = header->score_bits,
        .steps_per_nat = header->steps_per_nat,
        .exp_bits      = header->exp_bits,
        .mantissa_bits = header->mantissa_bits,
    };
}

uint32_t image_check_body(const void *image, size_t share, struct image_body *body)
{
    const struct image_header *h = image;
    size_t left;

    if (body->done == 0)
        body->done = image_header_bytes(image);
    left = h->image_bytes - body->done;
    if (left > share)
        left = share;
    body->crc   = crc32_update(body->crc, (const uint8_t *)image + body->done, left);
    body->done += left;
    return body->done == h->image_bytes && body->crc != h->body_crc ? IMAGE_ERROR_BODY_CRC : IMAGE_OK;
}

uint32_t image_check(const void *image, size_t bytes, size_t limit, int body)
{
    const struct image_header *h = image;
    const uint32_t zero = 0, before = offsetof(struct image_header, header_crc), after = before + sizeof(h->header_crc);
    struct image_body whole = {0};
    struct softmax softmax;
    size_t header_bytes;
    uint32_t crc;

    if (bytes < sizeof(*h))
        return IMAGE_ERROR_SHORT;
    if (h->magic != IMAGE_MAGIC)
        return IMAGE_ERROR_MAGIC;
    if (h->version != IMAGE_VERSION)
        return IMAGE_ERROR_VERSION;
    header_bytes = image_header_bytes(image);
    if (header_bytes == 0 || bytes < header_bytes)
        return IMAGE_ERROR_SHORT;
    crc = crc32_update(0, h, before);
    crc = crc32_update(crc, &zero, sizeof(zero));
    crc = crc32_update(crc, (const uint8_t *)h + after, header_bytes - after);
    if (crc != h->header_crc)
        return IMAGE_ERROR_HEADER_CRC;
    if (h->image_bytes > limit)
        return IMAGE_ERROR_LIMIT;
    if (h->image_bytes != bytes)
        return IMAGE_ERROR_SIZE;
    if (!shape(h))
        return IMAGE_ERROR_SHAPE;
    softmax = image_softmax(h);
    if (!softmax_valid(&softmax))
        return IMAGE_ERROR_ATTENTION;
    if (!offsets(h))
        return IMAGE_ERROR_OFFSET;
    if (body && image_check_body(image, bytes, &whole) != IMAGE_OK)
        return IMAGE_ERROR_BODY_CRC;
    return values(h) ? IMAGE_OK : IMAGE_ERROR_VALUE;
}

const char *image_error_text(uint32_t error)
{
    static const char *const texts[] = {
        [IMAGE_OK]               = "image is good",
        [IMAGE_ERROR_SHORT]      = "image is truncated: shorter than its header and layer records",
        [IMAGE_ERROR_MAGIC]      = "not a LiteTern image (wrong magic word)",
        [IMAGE_ERROR_VERSION]    = "image of another format version: pack the checkpoint again",
        [IMAGE_ERROR_SIZE]       = "image is truncated or damaged: not as long as its header says",
        [IMAGE_ERROR_LIMIT]      = "image is too large for the board's memory",
        [IMAGE_ERROR_HEADER_CRC] = "image is damaged: CRC-32 of the header does not match",
        [IMAGE_ERROR_BODY_CRC]   = "image is damaged: CRC-32 of the body does not match",
        [IMAGE_ERROR_SHAPE]      = "image describes a model that this firmware cannot run",
        [IMAGE_ERROR_ATTENTION]  = "image is damaged: there is no such softmax resolution",
        [IMAGE_ERROR_OFFSET]     = "image is damaged: a tensor lies outside of it",
        [IMAGE_ERROR_VALUE]      = "image is damaged: a scale, step, gain or table is out of range",
    };

    return error < sizeof(texts)/sizeof(texts[0]) ? texts[error] : "unknown image error";
}
