/*
 * Samples of running scripts, for profiles.
 *
 * While a profile runs, a thread of this process sleeps from one tick of a clock to the next and asks the
 * engine to interrupt the script. The engine does that where its state is consistent: at jumps, calls and
 * returns. There the stack is read. The thread touches nothing else of PHP.
 *
 * A signal could not do this unseen: sleep(), and other calls that the system does not restart, would
 * return early, and each signal that the C library leaves to programs can be taken by a script.
 *
 * Ticks that pass while the script waits in a call count for the stack of the next interruption.
 */
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "zend_closures.h"
#include "zend_generators.h"

#define SECOND 1000000000

/* Maximum number of calls that are read of a stack: one more than is kept. */
#define MAX_CALLS 257

/* The profile that the thread ticks for, set by the thread of the script: end on the monotonic clock, time
   between two ticks (both in nanoseconds), and the clock. */
static _Atomic int64_t end, period;
static atomic_bool counts_processor_time;

/* The end, in microseconds, of the profile that has ended last, as the router says. It may be before that
   end: the client has left. */
static const uint64_t *ended_profile;

/* The clock of the processor time of the script's thread. */
static clockid_t script_clock;

/* Number of the thread that ticks; 0 if none does. Another profile has another thread: the former one may
   sleep on a clock that stands still, and ends when it wakes. */
static _Atomic uint32_t ticking;

/* The present request is sampled, and the ticks since its last sample. */
static atomic_bool is_sampled;
static _Atomic uint32_t ticks;

static void (*former_function)(zend_execute_data *call);
static bool is_prepared;

static int64_t time_of(clockid_t clock)
{
    struct timespec time;

    return clock_gettime(clock, &time) == 0 ? (int64_t)time.tv_sec * SECOND + time.tv_nsec : 0;
}

static bool sleep_until(clockid_t clock, int64_t time)
{
    struct timespec until = {.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
    int error;

    do {
        error = clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL);
    } while (error == EINTR);
    return error == 0;
}

/* Returns true if the router has ended the profile before its time. */
static bool is_ended_early(int64_t own_end)
{
    return __atomic_load_n(ended_profile, __ATOMIC_ACQUIRE) == (uint64_t)(own_end / 1000);
}

static void interrupt_script(void)
{
    if (atomic_load(&is_sampled)) {
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
}

/* The kernel's struct sched_attr in its first version (sched_setattr(2)). */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Makes this thread run as soon as it wakes, although scripts compute: with the turns of others it would
   come after a short script has ended. Linux before 6.12 changes nothing, and favors threads that sleep. */
static void shorten_turns(void)
{
    struct scheduling scheduling;

    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) == 0
        && (scheduling.policy == SCHED_OTHER || scheduling.policy == SCHED_BATCH)) {
        scheduling.runtime = 100 * 1000;
        syscall(SYS_sched_setattr, 0, &scheduling, 0);
    }
}

static void *tick(void *number)
{
    uint32_t own = (uint32_t)(uintptr_t)number;
    clockid_t clock = atomic_load(&counts_processor_time) ? script_clock : CLOCK_MONOTONIC;
    int64_t next = time_of(clock);

    shorten_turns();
    for (;;) {
        uint32_t passed = 1;
        int64_t late, own_end;
        bool has_ended;

        next += atomic_load(&period);
        has_ended = !sleep_until(clock, next);
        own_end = atomic_load(&end);
        has_ended = has_ended || time_of(CLOCK_MONOTONIC) >= own_end || is_ended_early(own_end);
        if (atomic_load(&ticking) != own) {
            return NULL;
        }
        if (has_ended) {
            break;
        }
        late = (time_of(clock) - next) / atomic_load(&period);
        if (late > 0) {
            next += late * atomic_load(&period);
            passed += (uint32_t)late;
        }
        if (atomic_load(&is_sampled)) {
            atomic_fetch_add(&ticks, passed);
            interrupt_script();
        }
    }
    if (atomic_compare_exchange_strong(&ticking, &own, 0)) {
        /* The script hands its samples over. */
        interrupt_script();
    }
    return NULL;
}

static struct howdah_string text(const zend_string *string)
{
    return (struct howdah_string){ZSTR_VAL(string), ZSTR_LEN(string)};
}

static struct howdah_string name_of(const zend_execute_data *call)
{
    static const char *const unnamed[] = {"include()", "{main}", "eval()"};
    const zend_function *function = call->func;
    size_t kind = 0;

    if (function->common.function_name) {
        return text(function->common.function_name);
    }
    if (function->type == ZEND_EVAL_CODE) {
        kind = 2;
    } else if (ZEND_CALL_INFO(call) & ZEND_CALL_TOP) {
        kind = 1;
    }
    return (struct howdah_string){unnamed[kind], strlen(unnamed[kind])};
}

/* Returns true if the function of a call that has ended may have been freed: PHP interrupts after a call of
   an internal function, too, and some of them exist for a call only. */
static bool may_be_freed(const zend_execute_data *call)
{
    return call != EG(current_execute_data)
        && (ZEND_CALL_INFO(call) & (ZEND_CALL_HAS_THIS | ZEND_CALL_CLOSURE)) != 0
        && (Z_TYPE(call->This) != IS_OBJECT
            || Z_OBJ_HT(call->This)->get_method != zend_std_get_method);
}

static size_t read_calls(zend_execute_data *call, struct howdah_call *calls)
{
    size_t count = 0;

    if (may_be_freed(call)) {
        call = EG(current_execute_data);
    }
    for (; call && count < MAX_CALLS; call = call->prev_execute_data) {
        const zend_function *function;
        const zend_op *line;

        if (call->func == NULL) {
            /* A generator that another one delegates to. */
            call = zend_generator_check_placeholder_frame(call);
        }
        function = call->func;
        if (function == NULL) {
            continue;
        }
        memset(&calls[count], 0, sizeof(calls[count]));
        calls[count].name = name_of(call);
        if (function->common.scope && function->common.function_name) {
            calls[count].class_name = text(function->common.scope->name);
        }
        if (ZEND_USER_CODE(function->type)) {
            line = call->opline;
            if (line && line->opcode == ZEND_HANDLE_EXCEPTION && EG(opline_before_exception)) {
                line = EG(opline_before_exception);
            }
            calls[count].file = text(function->op_array.filename);
            calls[count].line = line ? line->lineno : 0;
            calls[count].start = function->op_array.line_start;
        }
        count++;
    }
    return count;
}

static void on_interrupt(zend_execute_data *call)
{
    static struct howdah_call calls[MAX_CALLS];
    const struct howdah_request *request = howdah_client_request();

    if (request && atomic_load(&is_sampled)) {
        uint32_t passed = atomic_exchange(&ticks, 0);
        bool is_last = atomic_load(&ticking) == 0;

        if (passed || is_last) {
            howdah_rust.sample(request->context, calls, passed ? read_calls(call, calls) : 0, passed,
                               is_last);
        }
        if (is_last) {
            atomic_store(&is_sampled, false);
        }
    }
    if (former_function) {
        former_function(call);
    }
}

/* A process that a script has forked has no thread, and belongs to no request. */
static void forget(void)
{
    atomic_store(&ticking, 0);
    atomic_store(&is_sampled, false);
}

static bool start_thread(void)
{
    static uint32_t last;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, former;
    int error;

    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    /* Signals of the process are for the thread of the script. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    last = last == UINT32_MAX ? 1 : last + 1;
    atomic_store(&ticking, last);
    error = pthread_create(&thread, &attributes, tick, (void *)(uintptr_t)last);
    if (error != 0) {
        atomic_store(&ticking, 0);
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

int howdah_php_profile(int is_processor_time, uint32_t period_us, uint64_t end_us, const uint64_t *ended)
{
    int64_t new_end = (int64_t)end_us * 1000, new_period = (int64_t)period_us * 1000;

    ended_profile = ended;
    if (time_of(CLOCK_MONOTONIC) >= new_end || is_ended_early(new_end)) {
        return 0;
    }
    if (!is_prepared) {
        if (pthread_getcpuclockid(pthread_self(), &script_clock) != 0) {
            return -1;
        }
        former_function = zend_interrupt_function;
        zend_interrupt_function = on_interrupt;
        pthread_atfork(NULL, NULL, forget);
        is_prepared = true;
    }
    if (atomic_load(&ticking) == 0 || atomic_load(&end) != new_end || atomic_load(&period) != new_period
        || atomic_load(&counts_processor_time) != (is_processor_time != 0)) {
        atomic_store(&end, new_end);
        atomic_store(&period, new_period);
        atomic_store(&counts_processor_time, is_processor_time != 0);
        if (!start_thread()) {
            return -1;
        }
    }
    atomic_store(&ticks, 0);
    atomic_store(&is_sampled, true);
    return 0;
}

void howdah_php_end_profile(void)
{
    atomic_store(&is_sampled, false);
}
