/* Who runs when, and with how much: priorities, processors and limits of other processes.

   Each call sets what is set already, so that it changes nothing where the kernel allows it. */
#define _GNU_SOURCE
#include "attacker.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_WHO_GROUP 2
#define IOPRIO_WHO_USER 3
#define IOPRIO_BEST_EFFORT_7 ((2 << 13) | 7)

static long set_nice(const struct target *target)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, (id_t)target->pid);
    return errno ? -1 : setpriority(PRIO_PROCESS, (id_t)target->pid, now);
}

static long set_nice_of_group(const struct target *target)
{
    pid_t group = getpgid(target->pid);
    if (group < 0)
        return -1;
    if (group == 0 || group == getpgrp())
        return fail(EDEADLK); /* it would be this program's own */
    errno = 0;
    int now = getpriority(PRIO_PGRP, (id_t)group);
    return errno ? -1 : setpriority(PRIO_PGRP, (id_t)group, now);
}

/* Lowers the priority of all processes of a user, and sees whom that concerned. */
static long set_nice_of_user(const struct target *target)
{
    errno = 0;
    int before = getpriority(PRIO_PROCESS, (id_t)target->pid);
    if (errno)
        return -1;
    if (before >= 19)
        return fail(ERANGE);
    int set = setpriority(PRIO_USER, 0, before + 1), error = errno;
    int after = getpriority(PRIO_PROCESS, (id_t)target->pid);
    add_detail("nice %d, then %d", before, after);
    return after != before ? 0 : fail(set == 0 ? EPERM : error);
}

static long set_scheduler(const struct target *target)
{
    struct sched_param parameters;
    int policy = sched_getscheduler(target->pid);
    if (policy < 0 || sched_getparam(target->pid, &parameters) != 0)
        return -1;
    return sched_setscheduler(target->pid, policy, &parameters);
}

static long set_parameters(const struct target *target)
{
    struct sched_param parameters;
    return sched_getparam(target->pid, &parameters) != 0 ? -1 : sched_setparam(target->pid, &parameters);
}

static long set_attributes(const struct target *target)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t minimum, maximum;
    } attributes = {0};
    if (syscall(SYS_sched_getattr, target->pid, &attributes, sizeof attributes, 0) != 0)
        return -1;
    return syscall(SYS_sched_setattr, target->pid, &attributes, 0);
}

static long set_affinity(const struct target *target)
{
    cpu_set_t processors;
    if (sched_getaffinity(target->pid, sizeof processors, &processors) != 0)
        return -1;
    return sched_setaffinity(target->pid, sizeof processors, &processors);
}

static long set_io_priority(const struct target *target)
{
    long now = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, target->pid);
    return now < 0 ? -1 : syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, target->pid, now);
}

static long set_io_priority_of_user(const struct target *target)
{
    long before = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, target->pid);
    long set = syscall(SYS_ioprio_set, IOPRIO_WHO_USER, getuid(), IOPRIO_BEST_EFFORT_7);
    int error = errno;
    long after = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, target->pid);
    if (after < 0)
        return -1;
    add_detail("%lx, then %lx", before, after);
    return after != before ? 0 : fail(set == 0 ? EPERM : error);
}

static long get_limits(const struct target *target)
{
    struct rlimit now;
    return prlimit(target->pid, RLIMIT_NOFILE, NULL, &now);
}

static long set_limits(const struct target *target)
{
    struct rlimit now;
    if (prlimit(target->pid, RLIMIT_CPU, NULL, &now) != 0)
        return -1;
    return prlimit(target->pid, RLIMIT_CPU, &now, NULL);
}

static long change_group(const struct target *target)
{
    /* Of whoever is no child the call says that there is no such process. */
    return setpgid(target->pid, target->pid) != 0 ? fail(errno == ESRCH ? EPERM : errno) : 0;
}

void attack_priorities(const struct target *target)
{
    static const struct named_attempt attempts[] = {
        {"setpriority", set_nice},
        {"setpriority of the process group", set_nice_of_group},
        {"sched_setscheduler", set_scheduler},
        {"sched_setparam", set_parameters},
        {"sched_setattr", set_attributes},
        {"sched_setaffinity", set_affinity},
        {"ioprio_set", set_io_priority},
        {"prlimit", set_limits},
        {"setpgid", change_group},
        {"setpriority of the user", set_nice_of_user},
        {"ioprio_set of the user", set_io_priority_of_user},
    };
    static const struct named_attempt seen[] = {{"prlimit to read", get_limits}};
    try_all("priority", attempts, LENGTH(attempts), target);
    try_all("see", seen, LENGTH(seen), target);
}
