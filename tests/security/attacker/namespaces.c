/* What a user namespace of its own, in which it is root, gives a process towards others. */
#define _GNU_SOURCE
#include "attacker.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t written = fd < 0 ? -1 : write(fd, text, strlen(text));
    close(fd);
    return written < 0 ? -1 : 0;
}

long become_root_of_namespace(void)
{
    char map[64];
    if (unshare(CLONE_NEWUSER) != 0)
        return -1;
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", first_uid);
    if (put("/proc/self/uid_map", map) != 0)
        return -1;
    snprintf(map, sizeof map, "0 %u 1", first_gid);
    return put("/proc/self/gid_map", map);
}

static long seize(const struct target *target)
{
    return become_root_of_namespace() != 0 ? -1 : ptrace(PTRACE_SEIZE, target->pid, 0, 0);
}

static long take_descriptor(const struct target *target)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    if (become_root_of_namespace() != 0)
        return -1;
    long fd = syscall(SYS_pidfd_getfd, pidfd, 0, 0);
    return fd < 0 && errno == EBADF ? 0 : fd;
}

static long open_memory(const struct target *target)
{
    return become_root_of_namespace() != 0 ? -1 : open_proc(target->pid, "mem", O_RDWR);
}

static long open_root(const struct target *target)
{
    return become_root_of_namespace() != 0 ? -1 : open_proc(target->pid, "root/etc/passwd", O_RDONLY);
}

static long send_signal(const struct target *target)
{
    return become_root_of_namespace() != 0 ? -1 : kill(target->pid, SIGCONT);
}

static long raise_priority(const struct target *target)
{
    return become_root_of_namespace() != 0 ? -1 : setpriority(PRIO_PROCESS, (id_t)target->pid, 0);
}

static long set_limits(const struct target *target)
{
    struct rlimit limit;
    if (become_root_of_namespace() != 0 || prlimit(target->pid, RLIMIT_CPU, NULL, &limit) != 0)
        return -1;
    return prlimit(target->pid, RLIMIT_CPU, &limit, NULL);
}

static long enter(const struct target *target)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    if (become_root_of_namespace() != 0)
        return -1;
    return setns(pidfd, CLONE_NEWNS);
}

void attack_namespaces(const struct target *target)
{
    static const struct named_attempt inspections[] = {
        {"ptrace SEIZE as root of a user namespace", seize},
        {"pidfd_getfd as root of a user namespace", take_descriptor},
        {"open /proc/PID/mem as root of a user namespace", open_memory},
        {"open /proc/PID/root/etc/passwd as root of a user namespace", open_root},
        {"setns as root of a user namespace", enter},
    };
    static const struct named_attempt signals[] = {{"kill SIGCONT as root of a user namespace", send_signal}};
    static const struct named_attempt priorities[] = {
        {"setpriority as root of a user namespace", raise_priority},
        {"prlimit as root of a user namespace", set_limits},
    };
    try_all("inspect", inspections, LENGTH(inspections), target);
    try_all("signal", signals, LENGTH(signals), target);
    try_all("priority", priorities, LENGTH(priorities), target);
}

/* ----- mounts: what everybody sees must not change */

static long mount_memory(const struct target *unused)
{
    (void)unused;
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long mount_in_namespace(const struct target *unused)
{
    (void)unused;
    if (become_root_of_namespace() != 0 || unshare(CLONE_NEWNS) != 0)
        return -1;
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long leave_mounts(const struct target *unused)
{
    (void)unused;
    return unshare(CLONE_NEWNS);
}

static long make_namespace(const struct target *unused)
{
    (void)unused;
    return become_root_of_namespace();
}

void attack_mounts(void)
{
    static const struct named_attempt own[] = {
        {"unshare CLONE_NEWUSER", make_namespace},
        {"mount in namespaces of its own", mount_in_namespace},
    };
    static const struct named_attempt shared[] = {
        {"mount", mount_memory},
        {"unshare CLONE_NEWNS", leave_mounts},
    };
    try_all("self", own, LENGTH(own), NULL);
    try_all("identity", shared, LENGTH(shared), NULL);
}
