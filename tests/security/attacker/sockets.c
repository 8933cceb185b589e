/* Sockets that lead to the server: the control API above all. */
#define _GNU_SOURCE
#include "attacker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static const char QUESTION[] = "GET /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

static const char FOREIGN_QUESTION[] =
    "GET /pools/site HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
static const char ORDER[] = "POST /control/applications/attacker/restart HTTP/1.1\r\nHost: localhost\r\n"
                            "Connection: close\r\nContent-Length: 0\r\n\r\n";

/* Sends a request over a connected socket. */
static long send_request(int fd, const char *request)
{
    struct timeval patience = {3, 0};
    char answer[256] = "";
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return -1;
    ssize_t length = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    if (length <= 0)
        return fail(length == 0 ? ECONNRESET : errno);
    answer[length] = 0;
    char *end = strstr(answer, "\r\n");
    if (end)
        *end = 0;
    add_detail("%s", answer);
    return strncmp(answer, "HTTP/1.1 2", 10) == 0 ? 0 : fail(EACCES);
}

/* Asks for the configuration. */
static long ask(int fd) { return send_request(fd, QUESTION); }

static socklen_t fill(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, sizeof address->sun_path - 1);
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = 0;
    /* The name of an abstract socket has no end but its length. */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] != '@'));
}

static long connect_to(const struct thing *thing, int type)
{
    struct sockaddr_un address;
    socklen_t length = fill(&address, thing->value);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, length) != 0 ? -1 : ask(fd);
}

static long connect_stream(const struct thing *thing) { return connect_to(thing, SOCK_STREAM); }
static long connect_packet(const struct thing *thing) { return connect_to(thing, SOCK_SEQPACKET); }
static long connect_datagram(const struct thing *thing) { return connect_to(thing, SOCK_DGRAM); }

static long connect_and_send(const struct thing *thing, const char *request)
{
    struct sockaddr_un address;
    socklen_t length = fill(&address, thing->value);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, length) != 0 ? -1 : send_request(fd, request);
}

static long ask_of_other_site(const struct thing *thing) { return connect_and_send(thing, FOREIGN_QUESTION); }
static long restart_own_site(const struct thing *thing) { return connect_and_send(thing, ORDER); }

static long connect_in_namespace(const struct thing *thing)
{
    return become_root_of_namespace() != 0 ? -1 : connect_to(thing, SOCK_STREAM);
}

static long connect_by_ring(const struct thing *thing)
{
    struct sockaddr_un address;
    socklen_t length = fill(&address, thing->value);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return uring_connect(fd, &address, length) != 0 ? -1 : ask(fd);
}

void attack_socket(const struct thing *thing)
{
    static const struct named_thing_attempt attempts[] = {
        {"connect", connect_stream},
        {"connect SOCK_SEQPACKET", connect_packet},
        {"connect SOCK_DGRAM", connect_datagram},
        {"connect as root of a user namespace", connect_in_namespace},
        {"connect by io_uring", connect_by_ring},
        {"ask about another site", ask_of_other_site},
        {"restart", restart_own_site},
    };
    try_things("socket", attempts, LENGTH(attempts), thing);
}

/* All sockets of this network namespace that have a name. */
void attack_all_sockets(void)
{
    char line[512], name[256];
    FILE *sockets = fopen("/proc/net/unix", "r");
    while (sockets && fgets(line, sizeof line, sockets)) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %255s", name) != 1 || !strcmp(name, "Path"))
            continue;
        struct thing thing = {name, name};
        attack_socket(&thing);
    }
    if (sockets)
        fclose(sockets);
}

/* ----- the control API over TCP */

static long ask_over_tcp(const struct thing *thing)
{
    char host[64];
    unsigned port;
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (sscanf(thing->value, "%63[^:]:%u", host, &port) != 2 || inet_aton(host, &address.sin_addr) == 0)
        return fail(EINVAL);
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ? -1 : ask(fd);
}

void attack_tcp(const struct thing *address)
{
    static const struct named_thing_attempt attempts[] = {{"GET /config over TCP", ask_over_tcp}};
    try_things("tcp", attempts, LENGTH(attempts), address);
}
