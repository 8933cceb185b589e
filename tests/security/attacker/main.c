/* An attacker: a program that a script of a site starts, and that tries to get at the rest of the
   server with what the kernel gives every process.

   attacker PHASE [target NAME PID TITLE] [file|directory|socket|tcp|user|ipc|shared NAME VALUE]
                  [secret HASH]... [own-processes]

   Prints a line of JSON for each attempt: {"kind", "attempt", "target", "outcome"}, where the outcome
   is "refused ...", "SUCCEEDED ..." or "unavailable ..." (the kernel does not have it). Phases:

   look        whatever leaves no trace: memory, descriptors, files, sockets, identities
   nudge       signals and priorities that change nothing
   hurt        signals that stop and end processes
   everybody   kill(-1)
   exhaust     uses up what its user may have
   junk        misuses the descriptors of its own worker
   own         the prototype and the other workers of its own application, which it may harm
   loopback    brings up the loopback device of a new network namespace (for the test)
   landlock    prints the version of Landlock that the kernel has (for the test) */
#define _GNU_SOURCE
#include "attacker.h"

#include <dirent.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MAX_TARGETS 64
#define MAX_THINGS 64
/* An attempt that hangs is given up after so many seconds. */
#define PATIENCE 10

char detail[DETAIL_BYTES];
uint64_t secrets[MAX_SECRETS];
size_t secret_count;
const char *forbidden_directory;
uid_t first_uid;
gid_t first_gid;

static struct target targets[MAX_TARGETS];
static size_t target_count;
static struct {
    const char *kind;
    struct thing thing;
} things[MAX_THINGS];
static size_t thing_count;
/* The application has a process namespace of its own: the numbers of others mean other processes. */
static int own_processes;

struct result {
    long value;
    int error;
    char detail[DETAIL_BYTES];
};

void add_detail(const char *format, ...)
{
    size_t used = strlen(detail);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail + used, sizeof detail - used, format, arguments);
    va_end(arguments);
}

static void put_text(char **at, char *end, const char *text)
{
    for (; *text && *at < end - 8; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            *at += sprintf(*at, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            *at += sprintf(*at, "\\u%04x", c);
        else
            *(*at)++ = (char)c;
    }
}

void report(const char *kind, const char *name, const char *target, const char *format, ...)
{
    char outcome[DETAIL_BYTES + 64], line[4096], *at = line, *end = line + sizeof line - 16;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome, sizeof outcome, format, arguments);
    va_end(arguments);
    const char *pairs[][2] = {{"kind", kind}, {"attempt", name}, {"target", target}, {"outcome", outcome}};
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        at += sprintf(at, "%s\"%s\": \"", i ? ", " : "{", pairs[i][0]);
        put_text(&at, end, pairs[i][1]);
        *at++ = '"';
    }
    at += sprintf(at, "}\n");
    /* One call for each line: processes that are killed lose nothing. */
    if (write(1, line, (size_t)(at - line)) < 0)
        _exit(2);
}

static void report_result(const char *kind, const char *name, const char *target, const struct result *result)
{
    const char *space = result->detail[0] ? ": " : "";
    if (result->value >= 0)
        report(kind, name, target, "SUCCEEDED%s%s", space, result->detail);
    else if (result->error == ENOSYS || result->error == EOPNOTSUPP)
        report(kind, name, target, "unavailable %s%s%s", strerrorname_np(result->error), space, result->detail);
    else
        report(kind, name, target, "refused %s%s%s",
               strerrorname_np(result->error) ? strerrorname_np(result->error) : "", space, result->detail);
}

/* Runs `run(what)` in a process of its own. */
static struct result in_child(long (*run)(const void *), const void *what)
{
    struct result result = {-1, EPIPE, "the attempt ended without an answer"};
    int ends[2];
    if (pipe(ends) != 0)
        return result;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        alarm(PATIENCE);
        detail[0] = 0;
        errno = 0;
        struct result own = {.value = run(what)};
        own.error = errno;
        memcpy(own.detail, detail, sizeof detail);
        _exit(write(ends[1], &own, sizeof own) != sizeof own);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &result, sizeof result) != sizeof result)
        result.value = -1;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return result;
}

struct run {
    attempt attempt;
    thing_attempt thing_attempt;
    const void *what;
};

static long run_one(const void *argument)
{
    const struct run *run = argument;
    return run->attempt ? run->attempt(run->what) : run->thing_attempt(run->what);
}

void try_all(const char *kind, const struct named_attempt *attempts, size_t count, const struct target *target)
{
    for (size_t i = 0; i < count; i++) {
        struct run run = {.attempt = attempts[i].run, .what = target};
        struct result result = in_child(run_one, &run);
        report_result(kind, attempts[i].name, target ? target->name : "", &result);
    }
}

void try_things(const char *kind, const struct named_thing_attempt *attempts, size_t count,
                const struct thing *thing)
{
    for (size_t i = 0; i < count; i++) {
        struct run run = {.thing_attempt = attempts[i].run, .what = thing};
        struct result result = in_child(run_one, &run);
        report_result(kind, attempts[i].name, thing->name, &result);
    }
}

long fail(int error)
{
    errno = error;
    return -1;
}

/* ----- processes */

int read_file(const char *path, char *buffer, size_t size)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    size_t length = fread(buffer, 1, size - 1, file);
    fclose(file);
    buffer[length] = 0;
    return (int)length;
}

static int read_proc(pid_t pid, const char *name, char *buffer, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return read_file(path, buffer, size);
}

/* The state of a process as in /proc/PID/stat, and the number after it; 0 if there is none. */
static char stat_of(pid_t pid, pid_t *parent)
{
    char text[1024], state = 0;
    if (read_proc(pid, "stat", text, sizeof text) < 0)
        return 0;
    char *after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %c %d", &state, parent) != 2)
        return 0;
    return state;
}

char state_of(pid_t pid)
{
    pid_t parent;
    return stat_of(pid, &parent);
}

pid_t parent_of(pid_t pid)
{
    pid_t parent = 0;
    return stat_of(pid, &parent) ? parent : 0;
}

int has_title(const struct target *target)
{
    char title[4096];
    int length = read_proc(target->pid, "cmdline", title, sizeof title);
    if (length < 0)
        return 0;
    return memmem(title, (size_t)length, target->title, strlen(target->title)) != NULL;
}

/* ----- phases */

static void look(void)
{
    pid_t worker = getppid();
    struct target own[] = {{"own worker", worker, ""}, {"own prototype", parent_of(worker), ""}};
    for (size_t i = 0; i < LENGTH(own); i++) {
        attack_memory(&own[i]);
        attack_proc_files(&own[i]);
    }
    for (size_t i = 0; i < target_count; i++) {
        attack_memory(&targets[i]);
        attack_proc_files(&targets[i]);
        attack_namespaces(&targets[i]);
        forge_request(&targets[i]);
    }
    for (size_t i = 0; i < thing_count; i++) {
        const struct thing *thing = &things[i].thing;
        const char *kind = things[i].kind;
        if (!strcmp(kind, "file"))
            attack_file(thing);
        else if (!strcmp(kind, "directory"))
            attack_directory(thing);
        else if (!strcmp(kind, "socket"))
            attack_socket(thing);
        else if (!strcmp(kind, "tcp"))
            attack_tcp(thing);
        else if (!strcmp(kind, "user"))
            attack_user(thing);
        else if (!strcmp(kind, "ipc"))
            attack_memory_of_ipc(thing);
        else if (!strcmp(kind, "shared"))
            attack_shared_file(thing);
    }
    attack_all_sockets();
    attack_identity();
    attack_terminals();
    attack_mounts();
    attack_keys();
    attack_inherited();
}

/* What the application may do to itself must cost nobody else anything. */
static void attack_own(void)
{
    pid_t worker = getppid(), prototype = parent_of(worker);
    struct target own_prototype = {"own prototype", prototype, ""};
    flood_supervisor(&own_prototype);
    attack_signals(&own_prototype);
    attack_priorities(&own_prototype);
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid == worker || parent_of(pid) != prototype)
            continue;
        struct target sibling = {"own sibling", pid, ""};
        attack_signals(&sibling);
        attack_priorities(&sibling);
        attack_life(&sibling);
    }
    if (proc)
        closedir(proc);
    /* A prototype that is left stopped reaps no worker and starts none. */
    report("own", "SIGSTOP", "own prototype", "%s", kill(prototype, SIGSTOP) == 0 ? "SUCCEEDED" : "refused");
    report("own", "SIGKILL", "own worker", "%s", kill(worker, SIGKILL) == 0 ? "SUCCEEDED" : "refused");
}

static int bring_up_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        return 1;
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &request) != 0;
}

static void read_arguments(char **argument)
{
    while (*argument) {
        const char *kind = *argument++;
        if (!strcmp(kind, "own-processes")) {
            own_processes = 1;
        } else if (!strcmp(kind, "secret") && argument[0] && secret_count < MAX_SECRETS) {
            secrets[secret_count++] = strtoull(*argument++, NULL, 16);
        } else if (!strcmp(kind, "target") && argument[0] && argument[1] && argument[2]
                   && target_count < MAX_TARGETS) {
            targets[target_count++] = (struct target){argument[0], atoi(argument[1]), argument[2]};
            argument += 3;
        } else if (argument[0] && argument[1] && thing_count < MAX_THINGS) {
            if (!strcmp(kind, "directory") && !forbidden_directory)
                forbidden_directory = argument[1];
            things[thing_count].kind = kind;
            things[thing_count++].thing = (struct thing){argument[0], argument[1]};
            argument += 2;
        } else {
            fprintf(stderr, "attacker: cannot understand %s\n", kind);
            exit(2);
        }
    }
}

/* Targets that can be seen; in a process namespace of their own, applications see no others. */
static void look_for_targets(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < target_count; i++) {
        int visible = has_title(&targets[i]);
        report("see", "/proc/PID/cmdline", targets[i].name, visible ? "SUCCEEDED" : "refused: not visible");
        if (visible || !own_processes)
            targets[kept++] = targets[i];
    }
    target_count = kept;
}

int main(int count, char **arguments)
{
    const char *phase = count > 1 ? arguments[1] : "";
    if (!strcmp(phase, "loopback"))
        return bring_up_loopback();
    if (!strcmp(phase, "landlock")) {
        long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
        printf("%ld\n", version < 0 ? 0 : version);
        return 0;
    }
    if (count < 2)
        return 2;
    read_arguments(arguments + 2);
    first_uid = getuid();
    first_gid = getgid();
    signal(SIGPIPE, SIG_IGN);
    look_for_targets();
    if (!strcmp(phase, "look")) {
        look();
    } else if (!strcmp(phase, "nudge")) {
        for (size_t i = 0; i < target_count; i++) {
            attack_signals(&targets[i]);
            attack_priorities(&targets[i]);
        }
    } else if (!strcmp(phase, "hurt")) {
        for (size_t i = 0; i < target_count; i++)
            attack_life(&targets[i]);
    } else if (!strcmp(phase, "everybody")) {
        attack_everybody(targets, target_count);
    } else if (!strcmp(phase, "exhaust")) {
        attack_user_limits();
    } else if (!strcmp(phase, "junk")) {
        attack_own_descriptors(getppid());
    } else if (!strcmp(phase, "own")) {
        attack_own();
    } else {
        fprintf(stderr, "attacker: there is no phase %s\n", phase);
        return 2;
    }
    report("end", phase, "", "done");
    return 0;
}
