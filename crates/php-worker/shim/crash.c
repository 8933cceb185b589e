/*
 * The report of a worker that crashes: the signal, the calls of PHP and those of the C library, written to
 * standard error, where the router finds them after a mark and adds them to the record of the crash.
 *
 * The handler runs on a stack of its own, since an endless recursion has used up the other one. It takes no
 * memory and no lock itself: the process may have crashed within malloc(). It reads the calls of PHP from memory
 * that may be damaged, so lengths and numbers are limited, and a second fault ends the reading with what there is by
 * then. A report that waits, for a lock of the loader for example, is given up. In the end the process gets the
 * signal again without a handler: exit status and core file are as without a report.
 */
#include "internal.h"

#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

#define MAX_CALLS 32
#define MAX_NAME 256
#define MAX_FRAMES 32
#define MAX_SECONDS 5
#define STACK_BYTES (64 * 1024)

/* Known to the router (crates/php-pool, crash_report.rs). */
static const char mark[] = "\036howdah crash\n";

static char stack[STACK_BYTES];
static pid_t process;

/* The signal that the report is about. */
static volatile sig_atomic_t crash;

/* The report so far. */
static char text[8192];
static volatile size_t length;

static sigjmp_buf second_fault;

static void add(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && length < sizeof(text); i++) {
        text[length] = bytes[i];
        length++;
    }
}
#define ADD(literal) add(literal, sizeof(literal) - 1)

static void add_number(uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    add(digits + at, sizeof(digits) - at);
}

static void add_string(const zend_string *string)
{
    size_t len = ZSTR_LEN(string);

    add(ZSTR_VAL(string), len < MAX_NAME ? len : MAX_NAME);
}

static void add_calls(void)
{
    const zend_execute_data *call = EG(current_execute_data);
    unsigned number = 0;

    /* All frames are counted: those of damaged memory may be a circle without a function. */
    for (unsigned frame = 0; call && frame < MAX_CALLS; frame++, call = call->prev_execute_data) {
        const zend_function *function = call->func;

        if (!function) {
            continue; /* a frame of PHP's own, below which calls of C are made */
        }
        ADD("#");
        add_number(number++);
        ADD(" ");
        if (function->common.function_name) {
            if (function->common.scope) {
                add_string(function->common.scope->name);
                ADD("::");
            }
            add_string(function->common.function_name);
            ADD("()");
        } else {
            ADD("{main}");
        }
        if (ZEND_USER_CODE(function->type)) {
            ADD(" at ");
            add_string(function->op_array.filename);
            if (call->opline) {
                ADD(":");
                add_number(call->opline->lineno);
            }
        }
        ADD("\n");
    }
}

static void put(void)
{
    size_t done = 0;

    while (done < length) {
        ssize_t written = write(STDERR_FILENO, text + done, length - done);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            break;
        }
        done += (size_t)written;
    }
    length = 0;
}

static void on_second_fault(int signal)
{
    siglongjmp(second_fault, 1);
}

static void set_handler(int signal, const struct sigaction *action)
{
    sigaction(signal, action, NULL);
}

static void die_by_default(void)
{
    const struct sigaction none = {.sa_handler = SIG_DFL};

    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
        set_handler(crashes[i], &none);
    }
}

static void on_alarm(int signal)
{
    die_by_default();
    raise(crash);
}

/* Ends a report that waits: for a lock that is held, or for a reader of its text. */
static void limit_time(void)
{
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK};
    sigset_t alarms;

    set_handler(SIGALRM, &action);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(MAX_SECONDS);
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
    struct sigaction second = {.sa_handler = on_second_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    void *frames[MAX_FRAMES];

    /* A process that a script has forked is no worker. */
    if (process == getpid()) {
        crash = signal;
        limit_time();
        for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
            set_handler(crashes[i], &second);
        }
        length = 0;
        ADD(mark);
        ADD("signal ");
        add_number((uint64_t)signal);
        ADD("\n");
        if (sigsetjmp(second_fault, 1) == 0) {
            add_calls();
        } else {
            ADD("(the memory of further calls is damaged)\n");
        }
        put();
        if (sigsetjmp(second_fault, 1) == 0) {
            backtrace_symbols_fd(frames, backtrace(frames, MAX_FRAMES), STDERR_FILENO);
        }
    }
    die_by_default();
    /* What has caused a fault does so again; a signal that was sent is sent again. */
    if (info->si_code <= 0) {
        raise(signal);
    }
}

void howdah_report_crashes(void)
{
    stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    void *frame[1];

    /* The first call loads the unwinder, which takes memory and locks. */
    backtrace(frame, 1);
    if (sigaltstack(&own, NULL) != 0) {
        return;
    }
    process = getpid();
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
        set_handler(crashes[i], &action);
    }
}
