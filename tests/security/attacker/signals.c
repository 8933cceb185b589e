/* Signals, by every call that sends them. */
#define _GNU_SOURCE
#include "attacker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* ----- signals that change nothing: SIGCONT to a process that runs */

static long kill_nothing(const struct target *target) { return kill(target->pid, 0); }
static long kill_continue(const struct target *target) { return kill(target->pid, SIGCONT); }
static long tkill_continue(const struct target *target) { return syscall(SYS_tkill, target->pid, SIGCONT); }

static long tgkill_continue(const struct target *target)
{
    return syscall(SYS_tgkill, target->pid, target->pid, SIGCONT);
}

static siginfo_t queued(void)
{
    siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    return info;
}

static long queue_signal(const struct target *target)
{
    siginfo_t info = queued();
    return syscall(SYS_rt_sigqueueinfo, target->pid, SIGCONT, &info);
}

static long queue_to_thread(const struct target *target)
{
    siginfo_t info = queued();
    return syscall(SYS_rt_tgsigqueueinfo, target->pid, target->pid, SIGCONT, &info);
}

static long send_by_pidfd(const struct target *target, int signal)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    return pidfd < 0 ? -1 : syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

static long pidfd_nothing(const struct target *target) { return send_by_pidfd(target, 0); }
static long pidfd_continue(const struct target *target) { return send_by_pidfd(target, SIGCONT); }

/* The directory of a process in /proc can stand for it. */
static long directory_continue(const struct target *target)
{
    int directory = open_proc(target->pid, "", O_RDONLY | O_DIRECTORY);
    return directory < 0 ? -1 : syscall(SYS_pidfd_send_signal, directory, SIGCONT, NULL, 0);
}

static long kill_group(const struct target *target)
{
    pid_t group = getpgid(target->pid);
    if (group < 0)
        return -1;
    if (group <= 1 || group == getpgrp())
        return fail(EDEADLK); /* all processes, or this program's own group */
    return kill(-group, SIGCONT);
}

static long expire_into(const struct target *target)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGCONT};
    event._sigev_un._tid = target->pid;
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, &event, &timer);
}

void attack_signals(const struct target *target)
{
    static const struct named_attempt attempts[] = {
        {"kill 0", kill_nothing},
        {"kill SIGCONT", kill_continue},
        {"tkill SIGCONT", tkill_continue},
        {"tgkill SIGCONT", tgkill_continue},
        {"rt_sigqueueinfo SIGCONT", queue_signal},
        {"rt_tgsigqueueinfo SIGCONT", queue_to_thread},
        {"pidfd_send_signal 0", pidfd_nothing},
        {"pidfd_send_signal SIGCONT", pidfd_continue},
        {"pidfd_send_signal by /proc/PID", directory_continue},
        {"kill the process group SIGCONT", kill_group},
        {"timer_create for another's thread", expire_into},
    };
    try_all("signal", attempts, LENGTH(attempts), target);
}

/* ----- signals that stop and end */

static void pause_ms(long milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* Whether a process stops within a moment; SIGSTOP takes effect when it is next scheduled. */
static int has_stopped(pid_t pid)
{
    for (int i = 0; i < 20; i++) {
        if (state_of(pid) == 'T')
            return 1;
        pause_ms(10);
    }
    return 0;
}

static long stop(const struct target *target)
{
    if (kill(target->pid, SIGSTOP) != 0)
        return -1;
    add_detail("state %c", has_stopped(target->pid) ? 'T' : state_of(target->pid));
    kill(target->pid, SIGCONT);
    return 0;
}

/* A descriptor that reports readiness with a signal of choice to an owner of choice. The kernel
   decides only when it sends it, and tells nobody. */
static long stop_by_readiness(const struct target *target, int type, pid_t owner)
{
    struct f_owner_ex other = {type, owner}, self = {F_OWNER_PID, getpid()};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || fcntl(ends[0], F_SETOWN_EX, &other) != 0
        || fcntl(ends[0], F_SETSIG, SIGSTOP) != 0
        || fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_ASYNC) != 0)
        return -1;
    if (write(ends[1], "x", 1) != 1)
        return -1;
    int stopped = has_stopped(target->pid);
    if (stopped) {
        fcntl(ends[0], F_SETSIG, SIGCONT);
        if (write(ends[1], "x", 1) != 1)
            return -1;
        kill(target->pid, SIGCONT);
    }
    fcntl(ends[0], F_SETOWN_EX, &self);
    if (!stopped)
        add_detail("no signal arrived");
    return stopped ? 0 : fail(EPERM);
}

static long stop_by_owner(const struct target *target)
{
    return stop_by_readiness(target, F_OWNER_PID, target->pid);
}

static long stop_by_owning_thread(const struct target *target)
{
    return stop_by_readiness(target, F_OWNER_TID, target->pid);
}

static long stop_by_owning_group(const struct target *target)
{
    pid_t group = getpgid(target->pid);
    if (group < 0)
        return -1;
    return group == 0 || group == getpgrp() ? fail(EDEADLK) : stop_by_readiness(target, F_OWNER_PGRP, group);
}

/* Breaking a lease and changing a directory tell their owners too. */
static long stop_by_directory(const struct target *target)
{
    char path[] = "/tmp/attacker-XXXXXX", file[64];
    if (!mkdtemp(path))
        return -1;
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    snprintf(file, sizeof file, "%s/file", path);
    long result = -1;
    if (directory >= 0 && fcntl(directory, F_SETSIG, SIGSTOP) == 0
        && fcntl(directory, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0
        && fcntl(directory, F_SETOWN, target->pid) == 0) {
        int made = open(file, O_CREAT | O_WRONLY, 0600);
        int stopped = has_stopped(target->pid);
        kill(target->pid, SIGCONT);
        if (!stopped)
            add_detail("no signal arrived");
        result = stopped ? 0 : fail(EPERM);
        close(made);
    }
    int error = errno;
    fcntl(directory, F_NOTIFY, 0);
    unlink(file);
    rmdir(path);
    errno = error;
    return result;
}

static long send_and_look(const struct target *target, int signal)
{
    if (kill(target->pid, signal) != 0)
        return -1;
    pause_ms(50);
    char state = state_of(target->pid);
    add_detail("state %c", state ? state : '-');
    return 0;
}

static long user_signal(const struct target *target) { return send_and_look(target, SIGUSR2); }
static long hang_up(const struct target *target) { return send_and_look(target, SIGHUP); }
static long segment(const struct target *target) { return send_and_look(target, SIGSEGV); }
static long terminate(const struct target *target) { return send_and_look(target, SIGTERM); }
static long kill_it(const struct target *target) { return send_and_look(target, SIGKILL); }

void attack_life(const struct target *target)
{
    static const struct named_attempt attempts[] = {
        {"SIGSTOP", stop},
        {"SIGSTOP by F_SETOWN", stop_by_owner},
        {"SIGSTOP by F_SETOWN_EX thread", stop_by_owning_thread},
        {"SIGSTOP by F_SETOWN_EX group", stop_by_owning_group},
        {"SIGSTOP by F_NOTIFY", stop_by_directory},
        {"SIGUSR2", user_signal},
        {"SIGHUP", hang_up},
        {"SIGSEGV", segment},
        {"SIGTERM", terminate},
        {"SIGKILL", kill_it},
    };
    try_all("life", attempts, LENGTH(attempts), target);
}

/* Signals all that may be signalled, and looks who is left. */
void attack_everybody(const struct target *targets, size_t count)
{
    long killed = kill(-1, SIGKILL);
    int error = errno;
    pause_ms(200);
    report("own", "kill(-1, SIGKILL)", "whoever may be killed", killed == 0 ? "SUCCEEDED" : "refused %s",
           strerrorname_np(error));
    for (size_t i = 0; i < count; i++) {
        char state = state_of(targets[i].pid);
        int alive = state && state != 'Z' && state != 'X';
        report("life", "kill(-1, SIGKILL)", targets[i].name, "%s", alive ? "refused: it lives" : "SUCCEEDED");
    }
}
