/* Becoming somebody else, and having more rights. */
#define _GNU_SOURCE
#include "attacker.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static long become_root(const struct target *unused) { return (void)unused, setuid(0); }
static long become_roots_group(const struct target *unused) { return (void)unused, setgid(0); }

static long take_groups(const struct target *unused)
{
    gid_t root = 0;
    (void)unused;
    return setgroups(1, &root);
}

static long use_roots_files(const struct target *unused)
{
    (void)unused;
    setfsuid(0);
    return setfsuid((uid_t)-1) == 0 ? 0 : fail(EPERM);
}

static long take_capabilities(const struct target *unused)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {~0U, ~0U, ~0U}};
    (void)unused;
    return syscall(SYS_capset, &header, all);
}

static long keep_the_way_open(const struct target *unused)
{
    (void)unused;
    /* Without, a set-user-ID program would make anybody root. */
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? fail(EPERM) : 0;
}

static long leave_root(const struct target *unused) { return (void)unused, chroot("/tmp"); }

static long make_device(const struct target *unused)
{
    (void)unused;
    return mknod("data/device", S_IFBLK | 0600, makedev(8, 0));
}

static long load_program(const struct target *unused)
{
    char attributes[128] = {0};
    (void)unused;
    attributes[0] = 1; /* BPF_MAP_TYPE_HASH */
    attributes[4] = attributes[8] = attributes[12] = 4;
    return syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, attributes, sizeof attributes);
}

static long use_ports(const struct target *unused)
{
    (void)unused;
#ifdef SYS_ioperm
    return syscall(SYS_ioperm, 0x80UL, 1UL, 1);
#else
    return fail(ENOSYS);
#endif
}

static long run_before_all(const struct target *unused)
{
    struct sched_param parameters = {.sched_priority = 1};
    (void)unused;
    return sched_setscheduler(0, SCHED_FIFO, &parameters);
}

static long be_preferred(const struct target *unused) { return (void)unused, setpriority(PRIO_PROCESS, 0, -20); }

static long raise_limit(const struct target *unused)
{
    struct rlimit limit;
    (void)unused;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY)
        return fail(EPERM);
    limit.rlim_max++;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static long survive(const struct target *unused)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    (void)unused;
    if (fd < 0)
        return errno == ENOENT ? fail(ENOSYS) : -1;
    return write(fd, "-1000", 5);
}

/* ----- of itself alone */

static long let_anybody_trace(const struct target *unused)
{
    (void)unused;
    return prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) < 0 && errno == EINVAL ? fail(ENOSYS) : 0;
}

static long be_dumpable(const struct target *unused) { return (void)unused, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }
static long adopt(const struct target *unused) { return (void)unused, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }
static long handle_faults(const struct target *unused) { return (void)unused, syscall(SYS_userfaultfd, O_CLOEXEC | 1); }

void attack_identity(void)
{
    static const struct named_attempt others[] = {
        {"setuid 0", become_root},
        {"setgid 0", become_roots_group},
        {"setgroups", take_groups},
        {"setfsuid 0", use_roots_files},
        {"capset", take_capabilities},
        {"set-user-ID programs", keep_the_way_open},
        {"chroot", leave_root},
        {"mknod", make_device},
        {"bpf", load_program},
        {"ioperm", use_ports},
        {"sched_setscheduler SCHED_FIFO", run_before_all},
        {"setpriority -20", be_preferred},
        {"setrlimit above the hard limit", raise_limit},
        {"oom_score_adj -1000", survive},
    };
    static const struct named_attempt own[] = {
        {"prctl PR_SET_PTRACER", let_anybody_trace},
        {"prctl PR_SET_DUMPABLE", be_dumpable},
        {"prctl PR_SET_CHILD_SUBREAPER", adopt},
        {"userfaultfd", handle_faults},
    };
    try_all("identity", others, LENGTH(others), NULL);
    try_all("self", own, LENGTH(own), NULL);
}

static long become_user(const struct thing *user)
{
    uid_t uid = (uid_t)strtoul(user->value, NULL, 10);
    return uid == getuid() ? fail(EALREADY) : setresuid(uid, uid, uid);
}

static long use_files_of(const struct thing *user)
{
    uid_t uid = (uid_t)strtoul(user->value, NULL, 10);
    if (uid == getuid())
        return fail(EALREADY);
    setfsuid(uid);
    return (uid_t)setfsuid((uid_t)-1) == uid ? 0 : fail(EPERM);
}

static long become_user_of_namespace(const struct thing *user)
{
    uid_t uid = (uid_t)strtoul(user->value, NULL, 10);
    if (uid == getuid() || uid == 0)
        return fail(EALREADY); /* root of the namespace is this user */
    return become_root_of_namespace() != 0 ? -1 : setresuid(uid, uid, uid);
}

void attack_user(const struct thing *user)
{
    static const struct named_thing_attempt attempts[] = {
        {"setresuid", become_user},
        {"setfsuid", use_files_of},
        {"setresuid in a user namespace", become_user_of_namespace},
    };
    try_things("identity", attempts, LENGTH(attempts), user);
}

/* ----- terminals: what is typed there is run by who started the server */

static long type_into(int fd)
{
    return ioctl(fd, TIOCSTI, "\n");
}

static long type_into_own(const struct target *unused)
{
    long result = -1;
    (void)unused;
    for (int fd = 0; fd < 3 && result != 0; fd++)
        result = type_into(fd);
    return result;
}

static long open_terminal(const struct target *unused) { return (void)unused, open("/dev/tty", O_RDWR); }

static long type_into_others(const struct target *unused)
{
    DIR *terminals = opendir("/dev/pts");
    int error = ENOENT;
    (void)unused;
    setsid();
    for (struct dirent *entry; terminals && (entry = readdir(terminals));) {
        char path[300];
        snprintf(path, sizeof path, "/dev/pts/%s", entry->d_name);
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "ptmx"))
            continue;
        /* Opened by the leader of a session that has none, it becomes its controlling terminal. */
        int fd = open(path, O_RDWR | O_NONBLOCK);
        if (fd >= 0 && type_into(fd) == 0)
            return 0;
        error = errno;
    }
    return fail(error);
}

void attack_terminals(void)
{
    static const struct named_attempt attempts[] = {
        {"TIOCSTI on standard streams", type_into_own},
        {"open /dev/tty", open_terminal},
        {"TIOCSTI on /dev/pts/*", type_into_others},
    };
    try_all("identity", attempts, LENGTH(attempts), NULL);
}
