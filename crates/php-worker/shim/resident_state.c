/*
 * PHP's state after the boot of a worker script, to which each request returns. What cannot be restored
 * ends the process.
 */
#include "internal.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ext/standard/basic_functions.h"
#include "zend_smart_str.h"

extern char **environ;

/* Handlers that set_error_handler() or set_exception_handler() has replaced. */
struct replaced_handlers {
    zval *handlers;
    int *levels; /* of error handlers */
    int count;
};

/* PHP's state after the boot. */
static struct {
    zval error_handler, exception_handler;
    int error_level;
    struct replaced_handlers error_handlers, exception_handlers;
    HashTable *settings;
    zend_string *time_zone;
    size_t tick_functions;
    char *locale, **environment;
    mode_t umask;
    int directory;
} booted = {.directory = -1};

static bool has_unregistered_tick_function;
static zif_handler php_unregister_tick_function;

static ZEND_FUNCTION(howdah_watched_unregister_tick_function)
{
    has_unregistered_tick_function = true;
    php_unregister_tick_function(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void howdah_watch_tick_functions(void)
{
    howdah_watch("unregister_tick_function", &php_unregister_tick_function,
                 ZEND_FN(howdah_watched_unregister_tick_function));
}

void howdah_call(const char *name, zval *result)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));

    ZVAL_UNDEF(result);
    if (function) {
        zend_call_known_function(function, NULL, NULL, result, 0, NULL, NULL);
    }
}

static zend_string *current_time_zone(void)
{
    zval name;

    howdah_call("date_default_timezone_get", &name);
    return Z_TYPE(name) == IS_STRING ? Z_STR(name) : NULL;
}

static void set_time_zone(zend_string *name)
{
    zend_function *function
        = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("date_default_timezone_set"));
    zval result, argument;

    if (function) {
        ZVAL_STR(&argument, name);
        zend_call_known_function(function, NULL, NULL, &result, 1, &argument, NULL);
    }
}

static char **copy_of_environment(void)
{
    size_t count = 0;
    char **copy;

    while (environ && environ[count]) {
        count++;
    }
    copy = calloc(count + 1, sizeof(*copy));
    if (copy && count > 0) {
        memcpy(copy, environ, count * sizeof(*copy));
    }
    return copy;
}

static bool has_environment(char **expected)
{
    size_t i = 0;

    if (expected == NULL || environ == NULL) {
        return expected == environ;
    }
    while (expected[i] && expected[i] == environ[i]) {
        i++;
    }
    return expected[i] == environ[i];
}

/* Frameworks set up sessions once, when the first request needs one, and keep the object that did so:
   Symfony's NativeSessionStorage sets name, limiter and cookies in its constructor. */
static bool is_kept(const zend_string *setting)
{
    return strncmp(ZSTR_VAL(setting), "session.", strlen("session.")) == 0;
}

static void remember_settings(void)
{
    zend_ini_entry *entry;

    if (booted.settings) {
        zend_array_destroy(booted.settings);
    }
    booted.settings = zend_new_array(0);
    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            zval value;

            ZVAL_STR_COPY(&value, entry->value ? entry->value : ZSTR_EMPTY_ALLOC());
            zend_hash_update(booted.settings, entry->name, &value);
        } ZEND_HASH_FOREACH_END();
    }
}

static void forget_replaced_handlers(struct replaced_handlers *replaced)
{
    for (int i = 0; i < replaced->count; i++) {
        zval_ptr_dtor(&replaced->handlers[i]);
    }
    if (replaced->count > 0) {
        efree(replaced->handlers);
        efree(replaced->levels);
    }
    replaced->count = 0;
}

static void remember_replaced_handlers(struct replaced_handlers *replaced, const zend_stack *stack,
                                       const zend_stack *levels)
{
    int count = zend_stack_count(stack);

    if (count == 0) {
        return;
    }
    replaced->handlers = safe_emalloc(count, sizeof(zval), 0);
    replaced->levels = safe_emalloc(count, sizeof(int), 0);
    for (int i = 0; i < count; i++) {
        ZVAL_COPY(&replaced->handlers[i], (zval *)zend_stack_base(stack) + i);
        replaced->levels[i] = levels ? ((int *)zend_stack_base(levels))[i] : 0;
    }
    replaced->count = count;
}

/* The state is kept anew after `warm_up`. */
static void forget_state(void)
{
    forget_replaced_handlers(&booted.error_handlers);
    forget_replaced_handlers(&booted.exception_handlers);
    zval_ptr_dtor(&booted.error_handler);
    zval_ptr_dtor(&booted.exception_handler);
    if (booted.time_zone) {
        zend_string_release(booted.time_zone);
    }
    free(booted.locale);
    free(booted.environment);
}

void howdah_remember_state(void)
{
    const char *locale = setlocale(LC_ALL, NULL);

    forget_state();
    ZVAL_COPY(&booted.error_handler, &EG(user_error_handler));
    ZVAL_COPY(&booted.exception_handler, &EG(user_exception_handler));
    booted.error_level = EG(user_error_handler_error_reporting);
    remember_replaced_handlers(&booted.error_handlers, &EG(user_error_handlers),
                               &EG(user_error_handlers_error_reporting));
    remember_replaced_handlers(&booted.exception_handlers, &EG(user_exception_handlers), NULL);
    remember_settings();
    booted.time_zone = current_time_zone();
    has_unregistered_tick_function = false;
    booted.tick_functions
        = BG(user_tick_functions) ? zend_llist_count(BG(user_tick_functions)) : 0;
    howdah_forget_process_changes();
    howdah_forget_module_changes();
    howdah_remember_modules();
    booted.locale = locale ? strdup(locale) : NULL;
    booted.environment = copy_of_environment();
    booted.umask = umask(0);
    umask(booted.umask);
    howdah_remember_streams();
    if (booted.directory >= 0) {
        close(booted.directory);
    }
    booted.directory = howdah_remember_directory();
}

static bool is_same_handler(const zval *one, const zval *other)
{
    return Z_TYPE_P(one) == Z_TYPE_P(other)
        && (Z_TYPE_P(one) == IS_UNDEF || Z_PTR_P(one) == Z_PTR_P(other));
}

static void restore_handler(zval *current, const zval *expected)
{
    if (!is_same_handler(current, expected)) {
        zval old;

        ZVAL_COPY_VALUE(&old, current);
        ZVAL_COPY(current, expected);
        zval_ptr_dtor(&old);
    }
}

static bool has_replaced_handlers(const zend_stack *stack, const zend_stack *levels,
                                  const struct replaced_handlers *expected)
{
    const zval *handlers = zend_stack_base(stack);
    const int *known = levels ? zend_stack_base(levels) : expected->levels;

    if (zend_stack_count(stack) != expected->count) {
        return false;
    }
    for (int i = 0; i < expected->count; i++) {
        if (!is_same_handler(&handlers[i], &expected->handlers[i]) || known[i] != expected->levels[i]) {
            return false;
        }
    }
    return true;
}

/* A request may have removed handlers of the boot, too: restore_error_handler(). */
static void restore_replaced_handlers(zend_stack *stack, zend_stack *levels,
                                      const struct replaced_handlers *expected)
{
    if (has_replaced_handlers(stack, levels, expected)) {
        return;
    }
    while (!zend_stack_is_empty(stack)) {
        zval old;

        ZVAL_COPY_VALUE(&old, (zval *)zend_stack_top(stack));
        zend_stack_del_top(stack);
        zval_ptr_dtor(&old);
    }
    while (levels && !zend_stack_is_empty(levels)) {
        zend_stack_del_top(levels);
    }
    for (int i = 0; i < expected->count; i++) {
        zval handler;

        ZVAL_COPY(&handler, &expected->handlers[i]);
        zend_stack_push(stack, &handler);
        if (levels) {
            zend_stack_push(levels, &expected->levels[i]);
        }
    }
}

static void restore_handlers(void)
{
    restore_replaced_handlers(&EG(user_error_handlers), &EG(user_error_handlers_error_reporting),
                              &booted.error_handlers);
    restore_replaced_handlers(&EG(user_exception_handlers), NULL, &booted.exception_handlers);
    restore_handler(&EG(user_error_handler), &booted.error_handler);
    EG(user_error_handler_error_reporting) = booted.error_level;
    restore_handler(&EG(user_exception_handler), &booted.exception_handler);
}

/* putenv() keeps the value that it has replaced in the entry of the variable, and puts it back when the
   entry is removed. A variable that the boot has set and a request has set again cannot be put back: its
   entry knows only the value before the boot. */
static bool restore_environment(void)
{
    zend_string *name;

    if (has_environment(booted.environment)) {
        return true;
    }
    ZEND_HASH_REVERSE_FOREACH_STR_KEY(&BG(putenv_ht), name) {
        if (name && !has_environment(booted.environment)) {
            zend_hash_del(&BG(putenv_ht), name);
        }
    } ZEND_HASH_FOREACH_END();
    /* Variables that were removed and put back may stand in another order. */
    return has_environment(booted.environment);
}

static bool restore_locale(void)
{
    const char *locale = setlocale(LC_ALL, NULL);

    if (locale == NULL || booted.locale == NULL || strcmp(locale, booted.locale) == 0) {
        return true;
    }
    if (setlocale(LC_ALL, booted.locale) == NULL) {
        return false;
    }
    zend_update_current_locale();
    return true;
}

static bool restore_time_zone(void)
{
    zend_string *name = current_time_zone();
    bool same = name && booted.time_zone && zend_string_equals(name, booted.time_zone);

    if (name) {
        zend_string_release(name);
    }
    if (!same && booted.time_zone) {
        set_time_zone(booted.time_zone);
        name = current_time_zone();
        same = name && zend_string_equals(name, booted.time_zone);
        if (name) {
            zend_string_release(name);
        }
    }
    return same || booted.time_zone == NULL;
}

static bool has_value(const zend_ini_entry *entry, const zend_string *expected)
{
    return entry->value == expected
        || (entry->value ? zend_string_equals(entry->value, expected) : ZSTR_LEN(expected) == 0);
}

/* Restores a setting that has changed since PHP's start. Returns false if that fails. */
static bool restore_setting(zend_ini_entry *entry, zval *booted_value)
{
    /* The stage in which PHP itself restores settings; in others, some of them cannot be. The time limit
       would not hold any more. */
    int stage = zend_string_equals_literal(entry->name, "max_execution_time")
        ? PHP_INI_STAGE_RUNTIME
        : PHP_INI_STAGE_DEACTIVATE;

    if (booted_value == NULL) {
        return zend_restore_ini_entry(entry->name, stage) == SUCCESS;
    }
    zend_alter_ini_entry_ex(entry->name, Z_STR_P(booted_value), PHP_INI_SYSTEM, stage, true);
    return has_value(entry, Z_STR_P(booted_value));
}

/* A request may have restored a setting that the boot has changed: ini_restore(). */
static bool restore_booted_settings(bool *have_changed)
{
    zend_string *name;
    zval *value;
    bool are_restored = true;

    ZEND_HASH_FOREACH_STR_KEY_VAL(booted.settings, name, value) {
        zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);

        if (entry && !has_value(entry, Z_STR_P(value)) && !is_kept(name)) {
            *have_changed = true;
            are_restored &= restore_setting(entry, value);
        }
    } ZEND_HASH_FOREACH_END();
    return are_restored;
}

/* ini_set(), and functions that change settings: set_time_limit(), error_reporting(), session_name(). */
static bool restore_settings(void)
{
    zend_ini_entry *entry;
    bool are_restored, have_changed = false;

    are_restored = restore_booted_settings(&have_changed);
    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            if (!zend_hash_exists(booted.settings, entry->name) && !is_kept(entry->name)) {
                have_changed = true;
                are_restored &= restore_setting(entry, NULL);
            }
        } ZEND_HASH_FOREACH_END();
    }
    /* Fails if the script keeps more memory than its limit permits. */
    if (have_changed && zend_set_memory_limit(PG(memory_limit)) != SUCCESS) {
        are_restored = false;
    }
    return are_restored;
}

/* New functions are at the end of the list. Returns false if functions of the boot may be missing. */
static bool restore_tick_functions(void)
{
    bool is_missing = has_unregistered_tick_function && booted.tick_functions > 0;

    has_unregistered_tick_function = false;
    while (BG(user_tick_functions)
           && zend_llist_count(BG(user_tick_functions)) > booted.tick_functions) {
        zend_llist_remove_tail(BG(user_tick_functions));
    }
    return !is_missing;
}

static void end_url_rewriting(url_adapt_state_ex_t *state)
{
    smart_str_free(&state->url_app);
    smart_str_free(&state->form_app);
    if (state->active) {
        smart_str_free(&state->result);
        smart_str_free(&state->buf);
        smart_str_free(&state->tag);
        smart_str_free(&state->arg);
        state->active = 0;
        state->tag_type = 0;
        state->attr_type = 0;
    }
}

static void restore_umask(void)
{
    /* PHP remembers the first value when umask() is called. */
    if (BG(umask) != -1) {
        umask(booted.umask);
    }
}

static void forget_last_error(void)
{
    PG(last_error_type) = 0;
    PG(last_error_lineno) = 0;
    if (PG(last_error_message)) {
        zend_string_release(PG(last_error_message));
        PG(last_error_message) = NULL;
    }
    if (PG(last_error_file)) {
        zend_string_release(PG(last_error_file));
        PG(last_error_file) = NULL;
    }
}

enum howdah_end howdah_restore_state(void)
{
    enum howdah_end end;
    bool are_restored;

    restore_handlers();
    are_restored = restore_settings();
    are_restored &= restore_tick_functions();
    restore_umask();
    howdah_restore_streams();
    /* Of output_add_rewrite_var() and session.use_trans_sid; as at PHP's end of a request. */
    end_url_rewriting(&BG(url_adapt_session_ex));
    end_url_rewriting(&BG(url_adapt_output_ex));
    forget_last_error();
    howdah_forget_random_state();
    if (!are_restored) {
        return HOWDAH_END_SETTINGS;
    }
    if (!howdah_restore_directory(booted.directory)) {
        return HOWDAH_END_DIRECTORY;
    }
    if (!restore_locale()) {
        return HOWDAH_END_LOCALE;
    }
    if (!restore_time_zone()) {
        return HOWDAH_END_TIME_ZONE;
    }
    if (!restore_environment()) {
        return HOWDAH_END_ENVIRONMENT;
    }
    end = howdah_restore_modules();
    return end == HOWDAH_END_NONE ? howdah_restore_process() : end;
}
