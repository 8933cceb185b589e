/* Descriptors that a process has by right: its own, and those of the worker that started it. */
#define _GNU_SOURCE
#include "attacker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define HIGHEST_DESCRIPTOR 64
#define FORGED_MESSAGES 20000

/* Descriptor with which an application sends mail. */
#define MAIL 110

/* Programs that a script starts have three descriptors, and that for mail. */
static long count_inherited(const struct target *unused)
{
    char path[64], leads[200];
    int found = 0;
    (void)unused;
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, leads, sizeof leads - 1);
        if (length < 0)
            continue;
        leads[length] = 0;
        if (fd == MAIL && !strncmp(leads, "socket:", 7))
            continue;
        /* The pipe of this attempt, whose reading end is closed. */
        if (!found && !strncmp(leads, "pipe:", 5)) {
            found = 1;
            continue;
        }
        add_detail("%d %s ", fd, leads);
    }
    return detail[0] ? 0 : fail(ENOENT);
}

void attack_inherited(void)
{
    static const struct named_attempt attempts[] = {{"descriptors inherited from the worker", count_inherited}};
    try_all("identity", attempts, LENGTH(attempts), NULL);
}

/* ----- what a worker may use, used badly */

static void scribble(int fd, off_t length)
{
    unsigned char *memory = mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return;
    srand(13);
    for (int i = 0; i < 200000; i++)
        memory[(size_t)rand() % (size_t)length] = (unsigned char)rand();
    munmap(memory, (size_t)length);
}

/* Junk, and as many descriptors beside it as a message can carry. */
static void send_junk(int fd)
{
    char junk[512], space[CMSG_SPACE(sizeof(int) * 200)];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)rand();
    for (int round = 0; round < 4000; round++) {
        struct iovec part = {junk, (size_t)(round % (int)sizeof junk) + 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (round % 2) {
            message.msg_control = space;
            message.msg_controllen = sizeof space;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            *header = (struct cmsghdr){CMSG_LEN(sizeof(int) * 200), SOL_SOCKET, SCM_RIGHTS};
            int *numbers = (int *)CMSG_DATA(header);
            for (int i = 0; i < 200; i++)
                numbers[i] = fd;
        }
        if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
    }
}

static long misuse_descriptors(const struct target *worker)
{
    int pidfd = (int)syscall(SYS_pidfd_open, worker->pid, 0), used = 0;
    if (pidfd < 0)
        return -1;
    for (int number = 0; number <= HIGHEST_DESCRIPTOR; number++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        struct stat facts;
        if (fd < 0 || fstat(fd, &facts) != 0)
            continue;
        used++;
        if (S_ISSOCK(facts.st_mode)) {
            send_junk(fd);
        } else if (S_ISREG(facts.st_mode) && facts.st_nlink == 0) {
            scribble(fd, facts.st_size);
        } else if (facts.st_mode == 0600) {
            /* An eventfd: full, it holds up whoever writes it. Only an empty one takes so much. */
            uint64_t most = UINT64_MAX - 1, count;
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            (void)!read(fd, &count, sizeof count);
            while (write(fd, &most, sizeof most) > 0)
                ;
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        }
    }
    add_detail("%d descriptors", used);
    return used ? 0 : -1;
}

void attack_own_descriptors(pid_t worker)
{
    static const struct named_attempt attempts[] = {{"junk in all descriptors", misuse_descriptors}};
    struct target target = {"own worker", worker, ""};
    try_all("own", attempts, LENGTH(attempts), &target);
}

/* ----- messages in a prototype's name */

static size_t put_u32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
    return sizeof value;
}

/* "PHP is loaded", and a measurement of a worker that has taken 2^50 bytes. */
static size_t forge(unsigned char *message, int round)
{
    size_t length = 0;
    if (round % 2) {
        message[length++] = 1; /* Ready */
        length += put_u32(message + length, 5);
        memcpy(message + length, "8.2.0", 5);
        return length + 5;
    }
    uint64_t base = 1 << 20, peak = 1ULL << 50;
    message[length++] = 6; /* Measured */
    memcpy(message + length, &base, 8);
    length += 8;
    message[length++] = 0; /* no memory limit */
    length += put_u32(message + length, 1);
    memset(message + length, 0, 4); /* the worker */
    length += 4;
    for (int i = 0; i < 5; i++, length += 8)
        memcpy(message + length, &peak, 8);
    return length;
}

static long flood(const struct target *prototype)
{
    int pidfd = (int)syscall(SYS_pidfd_open, prototype->pid, 0), sent = 0, refusal = EPERM;
    for (int number = 0; pidfd >= 0 && number <= HIGHEST_DESCRIPTOR; number++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0), type = 0;
        socklen_t length = sizeof type;
        if (fd < 0 && errno != EBADF)
            refusal = errno;
        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET)
            continue;
        for (int round = 0; round < FORGED_MESSAGES; round++) {
            unsigned char message[128];
            sent += send(fd, message, forge(message, round), MSG_NOSIGNAL) > 0;
        }
    }
    add_detail("%d messages", sent);
    return sent ? 0 : fail(refusal);
}

/* "Open this log": the descriptor would come to the router, and the file would be made. */
static long open_log(const struct target *router)
{
    unsigned char message[4096];
    int pidfd = (int)syscall(SYS_pidfd_open, router->pid, 0);
    int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, 3, 0);
    if (fd < 0)
        return -1;
    int length = snprintf((char *)message + 5, sizeof message - 5, "%s/made-by-the-attacker", forbidden_directory);
    message[0] = 11; /* OpenLog */
    put_u32(message + 1, (uint32_t)length);
    return send(fd, message, (size_t)length + 5, MSG_NOSIGNAL);
}

void forge_request(const struct target *router)
{
    static const struct named_attempt attempts[] = {{"forged request to the supervisor", open_log}};
    if (forbidden_directory && !strcmp(router->name, "router"))
        try_all("inspect", attempts, LENGTH(attempts), router);
}

void flood_supervisor(const struct target *prototype)
{
    static const struct named_attempt attempts[] = {{"forged messages to the supervisor", flood}};
    try_all("inspect", attempts, LENGTH(attempts), prototype);
}
