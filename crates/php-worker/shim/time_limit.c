/*
 * The time limits of scripts (max_execution_time, max_input_time, set_time_limit()), without system calls
 * for each request.
 *
 * PHP sets a timer of processor time, the handler of its signal and the signal mask when a request begins,
 * sets the timer again when the script begins, and clears it at the end: four system calls. Here, the timer
 * continues from one request to the next, and a limit is a time on the clock of the process's processor
 * time. If the timer expires before the limit of the present request, it is set to the rest. The worker
 * knows the time at which a request begins, so the clock is only read for set_time_limit() and after a body.
 *
 * The two functions replace those of PHP's library, which calls them through its symbol table. Where a
 * library is linked in such a way that it calls its own (-Bsymbolic), these are never called, and PHP's
 * limits work as usual.
 */
#include "internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "zend_signal.h"

#ifdef ZEND_SIGNALS

#define SECOND 1000000

/* As in PHP, other limits are none. */
#define MAX_SECONDS 999999999

/* Times on the clock of this process's processor time in microseconds; 0: none. A signal handler reads and
   writes the last two. */
static int64_t request_began;
static volatile int64_t limit, timer;

/* The limit has been reached: PHP's own handler has set the timer, if anything has. */
static volatile bool is_reached;

/* True once PHP has called the functions below. */
static bool are_called;

/* A script may have changed the signal's handler, or blocked it. */
static bool has_changed_signals;

/* What these functions replace, and PHP's handler of the signal. */
static void (*php_set_timeout)(zend_long seconds, bool reset_signals);
static void (*php_handler)(int signal);

static int64_t processor_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec / 1000;
}

static void set_timer(int64_t from_now)
{
    struct itimerval value = {.it_value = {from_now / SECOND, from_now % SECOND}};

    setitimer(ITIMER_PROF, &value, NULL);
}

/* Called as any handler in PHP: not while PHP is in a section that must not be interrupted. */
static void on_timer(int signal)
{
    int64_t now;

    if (is_reached) {
        php_handler(signal);
        return;
    }
    timer = 0;
    if (limit == 0) {
        return;
    }
    now = processor_time();
    if (now < limit) {
        timer = limit;
        set_timer(limit - now);
        return;
    }
    is_reached = true;
    php_handler(signal);
}

/* Makes the handler of the signal the one above, after PHP has set its own: that is the only way to learn
   its address. */
static void set_handler(void)
{
    zend_long seconds = EG(timeout_seconds);

    php_set_timeout(0, true);
    EG(timeout_seconds) = seconds;
    php_handler = (void (*)(int))SIGG(handlers)[SIGPROF - 1].handler;
    zend_signal(SIGPROF, on_timer);
}

/* Sets a limit that begins at the time `start`. */
static void set_limit(int64_t start, zend_long seconds, bool is_new_request)
{
    int64_t duration = (int64_t)seconds * SECOND;

    limit = start + duration;
    /* Later requests are rarely interrupted by a timer that has expired too early if it is set anew before
       it comes near. */
    if (timer == 0 || timer > limit || (is_new_request && timer < start + duration / 2)) {
        timer = limit;
        set_timer(duration);
    }
}

static void end_limit(void)
{
    limit = 0;
    if (is_reached) {
        set_timer(0);
        timer = 0;
        is_reached = false;
        /* PHP has set its own while it ended the script. */
        zend_signal(SIGPROF, on_timer);
    }
}

/* Restores the signal after changes by a script; zend_signal() unblocks it, too. */
static void restore_handler(void)
{
    if (has_changed_signals) {
        zend_signal(SIGPROF, on_timer);
        has_changed_signals = false;
    }
}

ZEND_API void zend_set_timeout(zend_long seconds, bool reset_signals)
{
    /* No function runs while PHP begins a request and a script. */
    int64_t start = EG(current_execute_data) ? 0 : request_began;

    are_called = true;
    if (php_handler == NULL) {
        set_handler(); /* The preload script runs before the first worker is forked. */
    }
    EG(timeout_seconds) = seconds;
    if (seconds > 0 && seconds <= MAX_SECONDS) {
        end_limit();
        set_limit(start ? start : processor_time(), seconds, start != 0);
    }
    if (reset_signals) {
        restore_handler();
    }
    howdah_store_timed_out(false);
}

ZEND_API void zend_unset_timeout(void)
{
    if (EG(timeout_seconds)) {
        end_limit();
    }
    howdah_store_timed_out(false);
}

void howdah_time_limit_begins(int64_t processor_time)
{
    request_began = processor_time;
}

void howdah_restart_time_limit(int64_t start)
{
    if (are_called) {
        restore_handler();
    }
    if (!are_called) {
        php_set_timeout(EG(timeout_seconds), false);
    } else if (start && EG(timeout_seconds) > 0 && EG(timeout_seconds) <= MAX_SECONDS) {
        end_limit();
        set_limit(start, EG(timeout_seconds), true);
        howdah_store_timed_out(false);
    } else {
        zend_set_timeout(EG(timeout_seconds), false);
    }
}

/* The timer is not inherited, and the clock of a new process begins at 0. */
static void forget_times(void)
{
    request_began = limit = timer = 0;
    is_reached = false;
}

/* ---- scripts that change signals ---- */

static zif_handler php_signal, php_mask;

/* From here on, the timer expires at the limit only: it may not be the handler above that runs. */
static void signals_change(void)
{
    int64_t left = limit == 0 || is_reached ? 0 : limit - processor_time();

    has_changed_signals = true;
    if (timer != limit && !is_reached) {
        timer = limit;
        set_timer(left < 0 ? 1 : left);
    }
}

static ZEND_FUNCTION(howdah_pcntl_signal)
{
    signals_change();
    php_signal(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(howdah_pcntl_sigprocmask)
{
    signals_change();
    php_mask(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void watch(const char *name, zif_handler *original, zif_handler replacement)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));

    if (function && function->type == ZEND_INTERNAL_FUNCTION && *original == NULL) {
        *original = function->internal_function.handler;
        function->internal_function.handler = replacement;
    }
}

void howdah_prepare_time_limits(void)
{
    struct sigaction action = {.sa_handler = on_timer};

    php_set_timeout = (void (*)(zend_long, bool))dlsym(RTLD_NEXT, "zend_set_timeout");
    /* PHP takes it for the handler to which it returns for each request. */
    sigaction(SIGPROF, &action, NULL);
    pthread_atfork(NULL, NULL, forget_times);
}

void howdah_time_limit_child(void)
{
    forget_times();
    set_handler();
    watch("pcntl_signal", &php_signal, ZEND_FN(howdah_pcntl_signal));
    watch("pcntl_sigprocmask", &php_mask, ZEND_FN(howdah_pcntl_sigprocmask));
}

#else

void howdah_prepare_time_limits(void)
{
}

void howdah_time_limit_child(void)
{
}

void howdah_time_limit_begins(int64_t processor_time)
{
    (void)processor_time;
}

void howdah_restart_time_limit(int64_t start)
{
    (void)start;
    zend_set_timeout(EG(timeout_seconds), false);
}

#endif
