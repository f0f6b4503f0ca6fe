/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Between service.c and service_upload.c. */

#ifndef SERVICE_PRIVATE_H
#define SERVICE_PRIVATE_H

#include "service.h"

/* service.c: answers. */
void service_send_error(struct service *service, uint32_t type, uint32_t session, uint32_t request, uint32_t code, const char *text);
void service_send_identity(struct service *service);

/* service.c: ends all generation (enum service_drain); until it has ended, no message is taken. */
void service_stop_all(struct service *service, uint32_t why);

/* service_upload.c: begins to check the image that is there; until it is done, no message but HELLO is taken. */
void service_load(struct service *service, size_t bytes);

/* service_upload.c: a turn of that; in the last one the engine has the image, and who waits an answer. */
void service_check(struct service *service, uint32_t now_us);

/* service_upload.c: requests. */
void service_upload_begin(struct service *service, const struct message_upload_begin *message);
void service_upload_data(struct service *service, uint32_t offset, const uint8_t *data, uint32_t bytes);
void service_upload_end(struct service *service);
void service_send_upload_status(struct service *service);

#endif
