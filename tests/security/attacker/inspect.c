/* Looking into other processes: memory, descriptors, and what /proc tells of them. */
#define _GNU_SOURCE
#include "attacker.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define HIGHEST_DESCRIPTOR 64
#define MAX_MAPPING (64UL << 20)
#define MAX_SCANNED (512UL << 20)
#define CHUNK (1UL << 20)

int open_proc(pid_t pid, const char *name, int flags)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void describe_descriptor(int number, int fd)
{
    char link[64], leads[80];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, leads, sizeof leads - 1);
    leads[length < 0 ? 0 : length] = 0;
    add_detail(" %d %s", number, leads);
}

/* ----- descriptors */

static long take_descriptors(const struct target *target)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0), refusal = EPERM, allowed = 0;
    if (pidfd < 0)
        return -1;
    for (int number = 0; number <= HIGHEST_DESCRIPTOR; number++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        if (fd >= 0) {
            describe_descriptor(number, fd);
            allowed = 1;
        } else if (errno == EBADF) {
            allowed = 1; /* asked, and there was none */
        } else {
            refusal = errno;
        }
    }
    return allowed ? 0 : fail(refusal);
}

static long list_directory(const struct target *target, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", target->pid, name);
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    errno = 0;
    int count = 0;
    while (readdir(directory))
        count++;
    if (errno)
        return -1;
    add_detail("%d entries", count - 2);
    return 0;
}

static long list_descriptors(const struct target *target) { return list_directory(target, "fd"); }
static long list_descriptor_facts(const struct target *target) { return list_directory(target, "fdinfo"); }

static long follow_descriptors(const struct target *target, int opens)
{
    int refusal = ENOENT, found = 0;
    for (int number = 0; number <= HIGHEST_DESCRIPTOR; number++) {
        char path[64], leads[128];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", target->pid, number);
        long result = opens ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY) : readlink(path, leads, sizeof leads);
        if (result >= 0)
            found++;
        else if (errno != ENOENT && errno != ENXIO)
            refusal = errno;
    }
    add_detail("%d of %d", found, HIGHEST_DESCRIPTOR + 1);
    return found ? 0 : fail(refusal);
}

static long read_descriptor_links(const struct target *target) { return follow_descriptors(target, 0); }
static long open_descriptors(const struct target *target) { return follow_descriptors(target, 1); }

/* ----- memory */

static long seize(const struct target *target)
{
    return ptrace(PTRACE_SEIZE, target->pid, 0, 0); /* ended with this process */
}

static long attach(const struct target *target)
{
    if (ptrace(PTRACE_ATTACH, target->pid, 0, 0) != 0)
        return -1;
    waitpid(target->pid, NULL, __WALL);
    return ptrace(PTRACE_DETACH, target->pid, 0, 0);
}

static long transfer(const struct target *target, int write_it)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)8, 1};
    long result = syscall(write_it ? SYS_process_vm_writev : SYS_process_vm_readv, target->pid, &here, 1UL,
                          &there, 1UL, 0UL);
    /* Nothing is mapped there: the kernel looks only after it has allowed it. */
    return result < 0 && errno == EFAULT ? 0 : result;
}

static long read_memory(const struct target *target) { return transfer(target, 0); }
static long write_memory(const struct target *target) { return transfer(target, 1); }
static long open_memory(const struct target *target) { return open_proc(target->pid, "mem", O_RDONLY); }
static long open_memory_to_write(const struct target *target) { return open_proc(target->pid, "mem", O_RDWR); }

static long advise_memory(const struct target *target)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    struct iovec there = {(void *)4096, 4096};
    if (pidfd < 0)
        return -1;
    return syscall(SYS_process_madvise, pidfd, &there, 1UL, MADV_COLD, 0);
}

static long move_memory(const struct target *target)
{
    void *page = (void *)4096;
    int status = 0;
    return syscall(SYS_move_pages, target->pid, 1UL, &page, NULL, &status, 0);
}

static int is_secret(uint64_t hash)
{
    for (size_t i = 0; i < secret_count; i++)
        if (secrets[i] == hash)
            return 1;
    return 0;
}

/* Whether a secret is among these bytes: a hash of every 32 of them, each made from the last. */
static int contains_secret(const unsigned char *bytes, size_t length)
{
    const uint64_t base = 0x100000001b3;
    uint64_t hash = 0, first = 1;
    for (int i = 0; i < SECRET_BYTES; i++)
        first *= base;
    for (size_t i = 0; i < length; i++) {
        hash = hash * base + bytes[i];
        if (i >= SECRET_BYTES)
            hash -= first * bytes[i - SECRET_BYTES];
        if (i + 1 >= SECRET_BYTES && is_secret(hash))
            return 1;
    }
    return 0;
}

/* Looks for the server's private key in what a process has for itself. */
static long find_secret(const struct target *target)
{
    static unsigned char chunk[CHUNK + SECRET_BYTES];
    char path[64], line[512];
    size_t scanned = 0, failed = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", target->pid);
    FILE *maps = fopen(path, "r");
    if (!maps)
        return -1;
    int mem = open_proc(target->pid, "mem", O_RDONLY);
    while (fgets(line, sizeof line, maps) && scanned < MAX_SCANNED) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || strncmp(rights, "rw-p", 4))
            continue;
        if (to - from > MAX_MAPPING)
            to = from + MAX_MAPPING;
        for (unsigned long at = from; at < to; at += CHUNK) {
            size_t wanted = to - at < sizeof chunk ? to - at : sizeof chunk;
            struct iovec here = {chunk, wanted}, there = {(void *)at, wanted};
            ssize_t length = process_vm_readv(target->pid, &here, 1, &there, 1, 0);
            if (length < 0)
                length = pread(mem, chunk, wanted, (off_t)at);
            if (length < 0) {
                failed = (size_t)errno;
                continue;
            }
            scanned += (size_t)length;
            if (contains_secret(chunk, (size_t)length)) {
                add_detail("the key was found at %lx", at);
                return 0;
            }
        }
    }
    fclose(maps);
    add_detail("%zu bytes could be read", scanned);
    return fail(failed ? (int)failed : ENOENT);
}

/* ----- other calls that look into a process */

static long compare(const struct target *target)
{
    return syscall(SYS_kcmp, getpid(), target->pid, KCMP_VM, 0UL, 0UL);
}

static long measure(const struct target *target)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return syscall(SYS_perf_event_open, &attributes, target->pid, -1, -1, 0UL);
}

static long get_robust_list(const struct target *target)
{
    void *head;
    size_t length;
    return syscall(SYS_get_robust_list, target->pid, &head, &length);
}

static long share_core(const struct target *target)
{
    unsigned long long cookie;
    long result = prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, target->pid, 0, &cookie);
    return result < 0 && errno == ENODEV ? fail(ENOSYS) : result;
}

static long enter_namespaces(const struct target *target)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    if (pidfd < 0)
        return -1;
    return setns(pidfd, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC);
}

/* ----- /proc */

/* Files that only who may trace a process can read. */
static const char *const SECRET_FILES[] = {"environ", "auxv",    "maps", "smaps",   "smaps_rollup", "numa_maps",
                                           "stack",   "syscall", "io",   "pagemap", "personality"};

/* Files that change a process. Each is given the value that it has. */
static const struct {
    const char *name, *value;
} WRITABLE_FILES[] = {{"oom_score_adj", NULL}, {"coredump_filter", NULL}, {"timerslack_ns", NULL},
                      {"comm", NULL},          {"clear_refs", "1"},       {"sched", "0"},
                      {"autogroup", "0"},      {"uid_map", "0 0 1"},      {"gid_map", "0 0 1"},
                      {"setgroups", "deny"},   {"loginuid", NULL},        {"attr/exec", ""}};

static const char *const LINKS[] = {"cwd",     "root",   "exe",    "ns/user",   "ns/mnt",
                                    "ns/pid",  "ns/net", "ns/ipc", "ns/cgroup", "ns/uts"};

static const char *current_file;

static long read_current(const struct target *target)
{
    char buffer[256];
    int fd = open_proc(target->pid, current_file, O_RDONLY);
    if (fd < 0)
        return errno == ENOENT ? fail(ENOSYS) : -1;
    return read(fd, buffer, sizeof buffer);
}

static long write_current(const struct target *target)
{
    char path[96], value[256] = "";
    const char *text = value;
    for (size_t i = 0; i < LENGTH(WRITABLE_FILES); i++)
        if (!strcmp(current_file, WRITABLE_FILES[i].name) && WRITABLE_FILES[i].value)
            text = WRITABLE_FILES[i].value;
    snprintf(path, sizeof path, "/proc/%d/%s", target->pid, current_file);
    if (text == value && read_file(path, value, sizeof value) < 0)
        return -1;
    int fd = open_proc(target->pid, current_file, O_WRONLY);
    if (fd < 0)
        return errno == ENOENT ? fail(ENOSYS) : -1;
    return write(fd, text, strlen(text));
}

static long follow_current(const struct target *target)
{
    char path[96], leads[256];
    snprintf(path, sizeof path, "/proc/%d/%s", target->pid, current_file);
    ssize_t length = readlink(path, leads, sizeof leads - 1);
    if (length < 0)
        return errno == ENOENT ? fail(ENOSYS) : -1;
    leads[length] = 0;
    add_detail("%s", leads);
    return 0;
}

static long open_current(const struct target *target)
{
    int fd = open_proc(target->pid, current_file, O_RDONLY);
    return fd < 0 && errno == ENOENT ? fail(ENOSYS) : fd;
}

static long open_below_root(const struct target *target)
{
    return open_proc(target->pid, "root/etc/passwd", O_RDONLY);
}

static long chdir_to_root(const struct target *target)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root", target->pid);
    return chdir(path);
}

static void try_file(const char *kind, const char *verb, const char *file, attempt run, const struct target *target)
{
    char name[64];
    snprintf(name, sizeof name, "%s /proc/PID/%s", verb, file);
    current_file = file;
    struct named_attempt attempt = {name, run};
    try_all(kind, &attempt, 1, target);
}

void attack_memory(const struct target *target)
{
    static const struct named_attempt attempts[] = {
        {"pidfd_getfd", take_descriptors},
        {"list /proc/PID/fdinfo", list_descriptor_facts},
        {"readlink /proc/PID/fd/*", read_descriptor_links},
        {"open /proc/PID/fd/*", open_descriptors},
        {"ptrace SEIZE", seize},
        {"ptrace ATTACH", attach},
        {"process_vm_readv", read_memory},
        {"process_vm_writev", write_memory},
        {"process_madvise", advise_memory},
        {"move_pages", move_memory},
        {"open /proc/PID/mem", open_memory},
        {"open /proc/PID/mem for writing", open_memory_to_write},
        {"find the TLS key in memory", find_secret},
        {"kcmp", compare},
        {"perf_event_open", measure},
        {"get_robust_list", get_robust_list},
        {"prctl PR_SCHED_CORE", share_core},
        {"setns", enter_namespaces},
    };
    /* Their numbers tell little. */
    static const struct named_attempt seen[] = {{"list /proc/PID/fd", list_descriptors}};
    try_all("inspect", attempts, LENGTH(attempts), target);
    try_all("see", seen, LENGTH(seen), target);
}

void attack_proc_files(const struct target *target)
{
    static const struct named_attempt roots[] = {{"open /proc/PID/root/etc/passwd", open_below_root},
                                                 {"chdir /proc/PID/root", chdir_to_root}};
    for (size_t i = 0; i < LENGTH(SECRET_FILES); i++)
        try_file("inspect", "read", SECRET_FILES[i], read_current, target);
    for (size_t i = 0; i < LENGTH(LINKS); i++) {
        try_file("inspect", "readlink", LINKS[i], follow_current, target);
        try_file("inspect", "open", LINKS[i], open_current, target);
    }
    try_all("inspect", roots, LENGTH(roots), target);
    for (size_t i = 0; i < LENGTH(WRITABLE_FILES); i++)
        try_file("change", "write", WRITABLE_FILES[i].name, write_current, target);
}
