/*
 * The state of OPcache for the server's status: the figures of opcache_get_status(), which runs here between two
 * requests, without a script. A worker reads them, not the prototype: the memory is written by scripts.
 */
#include "internal.h"

#include <time.h>

/* Minimum time between two readings, in seconds; one takes a few microseconds. */
#define INTERVAL 1

static const zval *member(const zval *array, const char *name)
{
    return array && Z_TYPE_P(array) == IS_ARRAY
        ? zend_hash_str_find(Z_ARRVAL_P(array), name, strlen(name))
        : NULL;
}

static uint64_t number(const zval *array, const char *name)
{
    const zval *found = member(array, name);

    return found && Z_TYPE_P(found) == IS_LONG && Z_LVAL_P(found) > 0 ? (uint64_t)Z_LVAL_P(found) : 0;
}

/* Calls the function without its list of scripts. Zend's own calls fail between two requests. */
static void get_status(const zend_function *function, zval *result)
{
    zval slots[ZEND_CALL_FRAME_SLOT + 1];
    zend_execute_data *call = (zend_execute_data *)slots, *before = EG(current_execute_data);

    memset(slots, 0, sizeof(slots));
    call->func = (zend_function *)function;
    ZEND_CALL_NUM_ARGS(call) = 1;
    ZVAL_FALSE(ZEND_CALL_ARG(call, 1));
    EG(current_execute_data) = call;
    function->internal_function.handler(call, result);
    EG(current_execute_data) = before;
}

/* Returns true if the figures are to be read now. */
static bool is_due(void)
{
    static time_t last;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (last != 0 && now.tv_sec - last < INTERVAL) {
        return false;
    }
    last = now.tv_sec;
    return true;
}

/* Returns null without OPcache, and if disable_functions names it. Not inlined: no variable of it may live in
   a register across the setjmp of zend_try. */
static zend_never_inline const zend_function *status_function(void)
{
    const zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_get_status"));
    const char *restricted = zend_ini_string("opcache.restrict_api", sizeof("opcache.restrict_api") - 1, 0);

    if (function == NULL || function->type != ZEND_INTERNAL_FUNCTION || (restricted && *restricted)) {
        return NULL;
    }
    return function;
}

void howdah_read_opcache(struct howdah_opcache *status)
{
    const zend_function *function;
    const zval *memory, *counts;
    zval result;

    if (!is_due()) {
        return;
    }
    function = status_function();
    if (function == NULL) {
        return;
    }
    ZVAL_UNDEF(&result);
    zend_try {
        get_status(function, &result);
    } zend_end_try();
    status->is_known = 1;
    if (Z_TYPE(result) == IS_ARRAY) {
        const zval *enabled = member(&result, "opcache_enabled");

        memory = member(&result, "memory_usage");
        counts = member(&result, "opcache_statistics");
        status->is_enabled = enabled && Z_TYPE_P(enabled) == IS_TRUE;
        status->used = number(memory, "used_memory");
        status->free = number(memory, "free_memory");
        status->wasted = number(memory, "wasted_memory");
        status->scripts = number(counts, "num_cached_scripts");
        status->hits = number(counts, "hits");
        status->misses = number(counts, "misses");
        status->restarts = number(counts, "oom_restarts") + number(counts, "hash_restarts")
            + number(counts, "manual_restarts");
    }
    zval_ptr_dtor(&result);
}
