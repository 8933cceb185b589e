/*
 * Changes that a request to a worker script makes in its process with functions of pcntl and posix, such as
 * signals and limits. These functions are replaced by ones that note their call, so that a request which
 * calls none of them costs no system call.
 */
#include "internal.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The changes by the functions below since the last call of howdah_forget_process_changes(). */
static struct {
    bool handlers, alarm, mask, limits, priority;
} changed;

/* The state before the first of these changes. */
static sigset_t mask;
static struct rlimit limits[RLIM_NLIMITS];
static int priority;
/* Seconds after which the boot's alarm was to come when a request changed it, and the time then. */
static unsigned int alarm_in;
static struct timespec alarm_noted;

static void note_handlers(const zend_execute_data *execute_data)
{
    /* Without an argument pcntl_async_signals() only tells its state. */
    changed.handlers |= ZEND_NUM_ARGS() > 0;
}

static void note_alarm(const zend_execute_data *execute_data)
{
    if (!changed.alarm) {
        changed.alarm = true;
        clock_gettime(CLOCK_MONOTONIC, &alarm_noted);
        alarm_in = alarm(0);
        alarm(alarm_in); /* the function returns it, too */
    }
}

static void note_mask(const zend_execute_data *execute_data)
{
    if (!changed.mask) {
        changed.mask = sigprocmask(SIG_BLOCK, NULL, &mask) == 0;
    }
}

static void note_limits(const zend_execute_data *execute_data)
{
    if (!changed.limits) {
        changed.limits = true;
        for (int i = 0; i < RLIM_NLIMITS; i++) {
            getrlimit(i, &limits[i]);
        }
    }
}

static void note_priority(const zend_execute_data *execute_data)
{
    if (!changed.priority) {
        changed.priority = true;
        priority = getpriority(PRIO_PROCESS, 0);
    }
}

#define WATCHED(name, note)                                \
    static zif_handler php_##name;                         \
    static ZEND_FUNCTION(howdah_watched_##name)            \
    {                                                      \
        note(execute_data);                                \
        php_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
    }

WATCHED(pcntl_signal, note_handlers)
WATCHED(pcntl_async_signals, note_handlers)
WATCHED(pcntl_alarm, note_alarm)
WATCHED(pcntl_sigprocmask, note_mask)
WATCHED(posix_setrlimit, note_limits)
WATCHED(pcntl_setpriority, note_priority)
WATCHED(proc_nice, note_priority)

void howdah_watch(const char *name, zif_handler *original, zif_handler replacement)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));

    if (function && function->type == ZEND_INTERNAL_FUNCTION && *original == NULL) {
        *original = function->internal_function.handler;
        function->internal_function.handler = replacement;
    }
}

#define WATCH(name) howdah_watch(#name, &php_##name, ZEND_FN(howdah_watched_##name))

void howdah_watch_process(void)
{
    WATCH(pcntl_signal);
    WATCH(pcntl_async_signals);
    WATCH(pcntl_alarm);
    WATCH(pcntl_sigprocmask);
    WATCH(posix_setrlimit);
    WATCH(pcntl_setpriority);
    WATCH(proc_nice);
    howdah_watch_modules();
    howdah_watch_streams();
    howdah_watch_tick_functions();
}

void howdah_forget_process_changes(void)
{
    memset(&changed, 0, sizeof(changed));
}

static bool restore_limits(void)
{
    bool are_same = true;

    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit now;

        if (getrlimit(i, &now) == 0
            && (now.rlim_cur != limits[i].rlim_cur || now.rlim_max != limits[i].rlim_max)) {
            are_same &= setrlimit(i, &limits[i]) == 0;
        }
    }
    return are_same;
}

static void restore_alarm(void)
{
    struct timespec now;
    unsigned int passed;

    clock_gettime(CLOCK_MONOTONIC, &now);
    passed = (unsigned int)(now.tv_sec - alarm_noted.tv_sec);
    /* If it should have come meanwhile, it comes now. */
    alarm(alarm_in == 0 ? 0 : alarm_in > passed ? alarm_in - passed : 1);
}

enum howdah_end howdah_restore_process(void)
{
    enum howdah_end end = HOWDAH_END_NONE;

    if (changed.alarm) {
        restore_alarm();
    }
    if (changed.mask) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
    }
    /* The functions that a script has set for signals are known to pcntl alone. */
    if (changed.handlers) {
        end = HOWDAH_END_SIGNALS;
    }
    if (changed.limits && !restore_limits()) {
        end = HOWDAH_END_LIMITS;
    }
    if (changed.priority && getpriority(PRIO_PROCESS, 0) != priority
        && setpriority(PRIO_PROCESS, 0, priority) != 0) {
        end = HOWDAH_END_LIMITS;
    }
    howdah_forget_process_changes();
    return end;
}
