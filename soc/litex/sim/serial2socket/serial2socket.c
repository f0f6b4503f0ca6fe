/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Module of LiteX's simulator: a serial interface as a TCP port of this machine, one client at a time.
 *
 *     args: {"port": 4321}
 *
 * No byte is lost while a client is there: the line waits for the socket and the socket for the line. Without a client the line's
 * output goes nowhere, as on an unplugged cable; clients may come and go. Every byte is acknowledged at once, so that a client which
 * writes a request in pieces is not held up by the pairing of Nagle's algorithm and delayed acknowledgements.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <json-c/json.h>

#include "error.h"
#include "modules.h"

#define BUFFER_BYTES  4096
#define POLL_CYCLES   64           /* Between two looks at a socket that has given nothing. */
#define ACCEPT_CYCLES 4096
#define IDLE_CYCLES   16           /* What the line has sent leaves when nothing follows for so long. */

struct buffer {
    uint8_t data[BUFFER_BYTES];
    size_t  first, last;
};

struct session {
    char *line_data, *line_valid, *line_ready;     /* From the simulated line … */
    char *host_data, *host_valid, *host_ready;     /* … and to it. */
    char *clock;
    char  before;                                  /* Clock, half a cycle ago. */
    char  sent, taken;                             /* Handshakes that the next rising edge completes. */
    int   listener, client;
    uint32_t cycles, idle;
    struct buffer to_host, to_line;
};

/* Socket ----------------------------------------------------------------------------------------*/

static void hang_up(struct session *s)
{
    close(s->client);
    s->client       = -1;
    s->to_host.last = s->to_host.first = 0;
    s->to_line.last = s->to_line.first = 0;
}

static void set_option(int fd, int option)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, option, &on, sizeof(on));
}

static void look_for_client(struct session *s)
{
    s->client = accept(s->listener, NULL, NULL);
    if (s->client < 0)
        return;
    fcntl(s->client, F_SETFL, O_NONBLOCK);
    set_option(s->client, TCP_NODELAY);
    set_option(s->client, TCP_QUICKACK);
}

static void receive(struct session *s)
{
    struct buffer *b = &s->to_line;
    ssize_t bytes    = recv(s->client, b->data, BUFFER_BYTES, 0);

    if (bytes > 0) {
        b->first = 0;
        b->last  = (size_t)bytes;
        set_option(s->client, TCP_QUICKACK);       /* The kernel forgets it. */
    } else if (bytes == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        hang_up(s);
    }
}

static void transmit(struct session *s)
{
    struct buffer *b = &s->to_host;
    ssize_t bytes    = send(s->client, b->data + b->first, b->last - b->first, MSG_NOSIGNAL);

    if (bytes > 0) {
        b->first += (size_t)bytes;
        if (b->first == b->last)
            b->first = b->last = 0;
    } else if (bytes < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        hang_up(s);
    }
}

/* Line ------------------------------------------------------------------------------------------*/

/* A rising edge has happened: what was agreed on before it is done, and the next cycle's offers are made. */
static void cycle(struct session *s)
{
    struct buffer *in = &s->to_line, *out = &s->to_host;

    s->cycles++;
    s->idle = s->sent ? 0 : s->idle + 1;
    if (s->taken)
        in->first++;
    if (s->client < 0) {
        if (s->cycles % ACCEPT_CYCLES == 0)
            look_for_client(s);
    } else {
        if (out->last == BUFFER_BYTES || (out->last && s->idle >= IDLE_CYCLES && s->idle % IDLE_CYCLES == 0))
            transmit(s);
        if (s->client >= 0 && in->first == in->last && (s->taken || s->cycles % POLL_CYCLES == 0))
            receive(s);
    }
    *s->line_ready = s->client < 0 || out->last < BUFFER_BYTES;
    *s->host_valid = in->first < in->last;
    if (in->first < in->last)
        *s->host_data = (char)in->data[in->first];
}

/* Half a cycle later all signals are settled. */
static void settle(struct session *s)
{
    s->sent  = *s->line_valid && *s->line_ready;
    s->taken = *s->host_valid && *s->host_ready;
    if (s->sent && s->client >= 0)
        s->to_host.data[s->to_host.last++] = (uint8_t)*s->line_data;
}

static int serial2socket_tick(void *session, uint64_t time_ps)
{
    struct session *s = session;
    char now = *s->clock;

    (void)time_ps;
    if (now != s->before) {
        if (now)
            cycle(s);
        else
            settle(s);
        s->before = now;
    }
    return RC_OK;
}

/* Module ----------------------------------------------------------------------------------------*/

static int port_of(const char *args)
{
    json_object *object = json_tokener_parse(args ? args : "{}"), *value = NULL;
    int port = 0;

    if (object && json_object_object_get_ex(object, "port", &value))
        port = json_object_get_int(value);
    json_object_put(object);
    return port;
}

static int serial2socket_start(void *base)
{
    (void)base;
    return RC_OK;
}

static int serial2socket_new(void **session, char *args)
{
    struct session *s = calloc(1, sizeof(*s));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port_of(args))};
    socklen_t length = sizeof(address);
    int on = 1;

    if (s == NULL)
        return RC_NOENMEM;
    *session    = s;
    s->client   = -1;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&address, sizeof(address)) || listen(s->listener, 1)
        || getsockname(s->listener, (struct sockaddr *)&address, &length)) {
        fprintf(stderr, "serial2socket: port %d: %s\n", port_of(args), strerror(errno));
        exit(EXIT_FAILURE);
    }
    printf("UART at socket://localhost:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return RC_OK;
}

static void *find(struct pad_s *pads, const char *name)
{
    while (pads->name && strcmp(pads->name, name))
        pads++;
    return pads->name ? pads->signal : NULL;
}

static int serial2socket_add_pads(void *session, struct pad_list_s *list)
{
    struct session *s = session;

    if (!strcmp(list->name, "serial")) {
        s->line_data  = find(list->pads, "source_data");
        s->line_valid = find(list->pads, "source_valid");
        s->line_ready = find(list->pads, "source_ready");
        s->host_data  = find(list->pads, "sink_data");
        s->host_valid = find(list->pads, "sink_valid");
        s->host_ready = find(list->pads, "sink_ready");
    }
    if (!strcmp(list->name, "sys_clk"))
        s->clock = find(list->pads, "sys_clk");
    return RC_OK;
}

static struct ext_module_s module = {
    "serial2socket", serial2socket_start, serial2socket_new, serial2socket_add_pads, NULL, serial2socket_tick,
};

int litex_sim_ext_module_init(int (*register_module)(struct ext_module_s *))
{
    return register_module(&module);
}
