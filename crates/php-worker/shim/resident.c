/*
 * Resident applications: a worker script that stays in memory and handles one request after the other,
 * with the functions of FrankenPHP.
 *
 * The script runs in a request without a client, the boot, which lasts as long as the process. Each call
 * of frankenphp_handle_request() waits for a client's request and handles it inside the boot. What PHP
 * itself does only between two boots is done here for each request: superglobals, output, headers,
 * uploads, session. What scripts change outside of them returns to its state after the boot, or the
 * process ends.
 */
#include "internal.h"

#include "ext/standard/basic_functions.h"
#include "ext/standard/head.h"
#include "ext/spl/spl_exceptions.h"
#include "zend_exceptions.h"
#include "zend_fibers.h"

/* The context of the callback `serve`; null in processes without a worker script. */
static void *resident;
/* The parameters of the boot. */
static const struct howdah_request *boot;
static char boot_error[1024];

/* Why the script must not ask for another request, if it is known before it does. */
static enum howdah_end pause_end;

/* The function of the script that handles the next request. */
static zend_fcall_info handler;
static zend_fcall_info_cache handler_cache;

static bool has_booted, is_warming, in_request, discards_output, restart_requested;

bool howdah_is_resident(void)
{
    return resident != NULL;
}

bool howdah_in_resident_request(void)
{
    return in_request;
}

bool howdah_discards_output(void)
{
    return discards_output;
}

const char *howdah_php_boot_error(void)
{
    return boot_error;
}

/* ---- one request ---- */

static bool is_named(const zend_auto_global *global, const char *name)
{
    return strcmp(ZSTR_VAL(global->name), name) == 0;
}

/* Fills the superglobals. $_ENV stays as it is. PHP fills $_SERVER and $_REQUEST while it compiles or loads
   a script that uses them. Where that has happened already, each request fills them; where no script uses
   them, none pays for them: $_SERVER is about a fifth of a worker's processor time for a script of 13 bytes. */
static void import_superglobals(void)
{
    zval *files = &PG(http_globals)[TRACK_VARS_FILES];
    zend_string *session_name = zend_string_init(ZEND_STRL("_SESSION"), 0);
    zend_auto_global *global;

    zval_ptr_dtor_nogc(files);
    ZVAL_UNDEF(files);
    zend_delete_global_variable(session_name);
    zend_string_release(session_name);

    ZEND_HASH_FOREACH_PTR(CG(auto_globals), global) {
        if (global->auto_global_callback == NULL || is_named(global, "_ENV")) {
            continue;
        }
        /* No script has used it yet. PHP will fill it when it compiles one that does. */
        if (global->jit && global->armed) {
            continue;
        }
        global->armed = global->auto_global_callback(global->name);
    } ZEND_HASH_FOREACH_END();
}

/* Calls a function of an extension that PHP calls at the start or the end of each request. */
static void call_extension(const char *name, bool start)
{
    zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, name, strlen(name));
    zend_result (*function)(int, int)
        = module ? (start ? module->request_startup_func : module->request_shutdown_func) : NULL;

    if (function) {
        function(module->type, module->module_number);
    }
}

static void start_output(void)
{
    php_output_activate();
    PG(header_is_being_sent) = 0;
    PG(connection_status) = PHP_CONNECTION_NORMAL;
}

static void start_output_buffers(void)
{
    if (PG(expose_php)) {
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
    }
    if (howdah_has_output_handler()) {
        zval name;

        howdah_output_handler(&name);
        php_output_start_user(&name, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
        zval_ptr_dtor(&name);
    } else if (PG(output_buffering)) {
        php_output_start_user(NULL, PG(output_buffering) > 1 ? PG(output_buffering) : 0,
                              PHP_OUTPUT_HANDLER_STDFLAGS);
    } else if (PG(implicit_flush)) {
        php_output_set_implicit_flush(1);
    }
}

/* The functions of register_shutdown_function() that the boot has registered. Those of a request run at
   its end, as in any application. If they were kept, their output would be in the response of another
   visitor. */
static HashTable *boot_functions;

static void free_entry(zval *entry)
{
    efree(Z_PTR_P(entry));
}

static void set_shutdown_functions_aside(void)
{
    if (boot_functions == NULL) {
        boot_functions = BG(user_shutdown_function_names);
        BG(user_shutdown_function_names) = NULL;
    }
}

/* Makes those of the boot and of this request run at the end of the process. */
static void join_shutdown_functions(void)
{
    HashTable *own = BG(user_shutdown_function_names);
    php_shutdown_function_entry *entry;

    if (boot_functions == NULL) {
        return;
    }
    if (own) {
        ZEND_HASH_FOREACH_PTR(own, entry) {
            zend_hash_next_index_insert_mem(boot_functions, entry, sizeof(*entry));
        } ZEND_HASH_FOREACH_END();
        /* The objects of the entries belong to the others now. */
        own->pDestructor = (dtor_func_t)free_entry;
        zend_hash_destroy(own);
        FREE_HASHTABLE(own);
    }
    BG(user_shutdown_function_names) = boot_functions;
    boot_functions = NULL;
}

static void begin_request(const struct howdah_request *request)
{
    zval error_handler;

    SG(server_context) = (void *)request;
    howdah_fill_request_info(request);
    EG(exit_status) = 0;
    set_shutdown_functions_aside();
    howdah_reset_peak_memory();
    howdah_apply_upload_directory();
    start_output();
    /* Warnings about the input must not run functions of the script before its request is complete. */
    ZVAL_COPY_VALUE(&error_handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    sapi_activate();
    howdah_note_body_limit();
    start_output_buffers();
    import_superglobals();
    ZVAL_COPY_VALUE(&EG(user_error_handler), &error_handler);
    call_extension("filter", true);
    /* Forgets the encodings that the last client accepts, and begins to compress if the settings say so. */
    call_extension("zlib", true);
    howdah_auto_start_session();
    howdah_restart_time_limit(request->cpu_us);
}

static bool is_exit(const zend_object *exception)
{
    return zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception);
}

/* Returns the cause of the script's end: exit(), or memory_limit, which PHP handles in the same way. */
static enum howdah_end cause_of_exit(void)
{
    return EG(exit_status) == 255 && (PG(last_error_type) & E_FATAL_ERRORS) ? HOWDAH_END_FATAL
                                                                           : HOWDAH_END_EXIT;
}

/* Returns why PHP has stopped the script. */
static enum howdah_end cause_of_bailout(void)
{
    if (PG(connection_status) & PHP_CONNECTION_TIMEOUT) {
        return HOWDAH_END_TIMEOUT;
    }
    if (PG(connection_status) & PHP_CONNECTION_ABORTED) {
        return HOWDAH_END_DISCONNECTED;
    }
    return HOWDAH_END_FATAL;
}

enum howdah_end howdah_settle_exception(void)
{
    if (EG(exception) && is_exit(EG(exception))) {
        zend_clear_exception();
        return cause_of_exit();
    }
    if (EG(exception)) {
        zend_exception_error(EG(exception), E_ERROR);
    }
    return HOWDAH_END_NONE;
}

/* Does a step of the end of a response as PHP does it at the end of a script, where no function runs: if a
   callback of ob_start() or header_register_callback() throws an exception or calls exit(), PHP stops there.
   What a filter was to change is then dropped instead of sent as it is. Returns why the script must not go
   on, or 0. */
static enum howdah_end end_output(void (*step)(void))
{
    zend_execute_data *script = EG(current_execute_data);
    volatile bool is_done = false;
    volatile enum howdah_end end;

    if (howdah_client_request() == NULL) {
        /* No client gets the output, and the process shall continue. */
        step();
        return howdah_settle_exception();
    }
    EG(current_execute_data) = NULL;
    zend_try {
        step();
        is_done = true;
    } zend_end_try();
    if (is_done) {
        EG(current_execute_data) = script;
        return howdah_settle_exception();
    }
    end = cause_of_bailout();
    if (end == HOWDAH_END_FATAL && !(PG(last_error_type) & E_FATAL_ERRORS)) {
        end = HOWDAH_END_EXIT;
    }
    zend_try {
        php_output_deactivate();
    } zend_end_try();
    return end;
}

static void send_head(void)
{
    php_header();
}

/* Ends the response and frees its memory. Returns why the script must not continue, or 0; then
   php_request_shutdown() has to do the rest. */
static enum howdah_end end_request(void)
{
    enum howdah_end end;
    php_stream *body;

    if (has_booted) {
        php_call_shutdown_functions();
        /* PHP has caught the end of the script in there. */
        end = CG(unclean_shutdown) ? cause_of_bailout() : howdah_settle_exception();
        if (end != HOWDAH_END_NONE) {
            /* They must not run again at the end of the process, which frees their memory: destructors
               of what they hold run there, in PHP's order. */
            BG(user_shutdown_function_names) = NULL;
            return end;
        }
        php_free_shutdown_functions();
    }
    /* As in PHP, functions of the script store a session before the client gets the rest of the response,
       and may still change its status. */
    if ((end = howdah_write_user_session()) != HOWDAH_END_NONE) {
        return end;
    }
    if ((end = end_output(php_output_end_all)) != HOWDAH_END_NONE) {
        return end;
    }
    call_extension("filter", false);
    call_extension("zlib", false);
    if ((end = howdah_end_session()) != HOWDAH_END_NONE) {
        return end;
    }
    if ((end = end_output(send_head)) != HOWDAH_END_NONE) {
        return end;
    }
    php_output_deactivate();
    body = SG(request_info).request_body;
    sapi_deactivate();
    if (body) {
        howdah_end_input_streams(body);
        zend_list_delete(body->res);
    }
    howdah_free_request_info();
    zend_set_memory_limit(PG(memory_limit));
    return HOWDAH_END_NONE;
}

/* Hands the exception to the script's exception handler, as PHP does at the end of a script, but keeps
   what the handler throws: zend_user_exception_handler() drops it where a function runs, as here. */
static void call_exception_handler(void)
{
    zend_object *exception = EG(exception);
    zval handler_of_script, parameter, result;

    EG(exception) = NULL;
    ZVAL_OBJ(&parameter, exception);
    ZVAL_COPY_VALUE(&handler_of_script, &EG(user_exception_handler));
    zend_stack_push(&EG(user_exception_handlers), &handler_of_script);
    ZVAL_UNDEF(&EG(user_exception_handler));
    if (call_user_function(NULL, NULL, &handler_of_script, &result, 1, &parameter) == SUCCESS) {
        zval_ptr_dtor(&result);
        OBJ_RELEASE(exception);
    } else {
        EG(exception) = exception;
    }
    if (Z_TYPE(EG(user_exception_handler)) == IS_UNDEF) {
        zval *previous = zend_stack_top(&EG(user_exception_handlers));

        if (previous) {
            ZVAL_COPY_VALUE(&EG(user_exception_handler), previous);
            zend_stack_del_top(&EG(user_exception_handlers));
        }
    }
}

/* Calls the script's function. Returns why the script must not continue, or 0. */
static enum howdah_end call_handler(void)
{
    zval result;

    ZVAL_UNDEF(&result);
    handler.retval = &result;
    handler.params = NULL;
    handler.param_count = 0;
    if (zend_call_function(&handler, &handler_cache) == SUCCESS) {
        zval_ptr_dtor(&result);
    }
    if (EG(exception) && !is_exit(EG(exception))
        && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        call_exception_handler();
    }
    return howdah_settle_exception();
}

void howdah_php_handle_resident(const struct howdah_request *request,
                                struct howdah_outcome *outcome)
{
    volatile enum howdah_end end = HOWDAH_END_NONE;

    memset(outcome, 0, sizeof(*outcome));
    in_request = true;
    discards_output = request->context == NULL;
    zend_try {
        begin_request(request);
        end = call_handler();
        outcome->cut = howdah_is_cut();
        if (end == HOWDAH_END_NONE) {
            outcome->peak_memory = zend_memory_peak_usage(1);
            end = end_request();
        }
        /* The state that the warm-up request has left belongs to the boot. */
        is_warming = discards_output;
        if (end == HOWDAH_END_NONE && !is_warming) {
            end = howdah_restore_state();
        }
        if (end == HOWDAH_END_NONE && restart_requested) {
            end = HOWDAH_END_RESTART;
        }
        if (end == HOWDAH_END_NONE && !is_warming) {
            howdah_read_opcache(&outcome->opcache);
        }
    } zend_catch {
        end = cause_of_bailout();
    } zend_end_try();
    outcome->cut |= howdah_is_cut();

    if (end == HOWDAH_END_EXIT || end == HOWDAH_END_FATAL || end == HOWDAH_END_TIMEOUT
        || end == HOWDAH_END_DISCONNECTED) {
        /* The script must not continue: its functions were left in the middle. As at the end of a request
           of another application, shutdown functions run and may still write to the client. */
        outcome->peak_memory = zend_memory_peak_usage(1);
        outcome->broken = 1;
        join_shutdown_functions();
        /* What PHP calls now is called by no function: it stops at exceptions instead of going on. */
        EG(current_execute_data) = NULL;
        zend_try {
            php_request_shutdown(NULL);
        } zend_end_try();
        outcome->cut |= howdah_is_cut();
    }
    outcome->end = end;
    in_request = false;
    SG(server_context) = (void *)boot;
}

/* ---- the script between requests of clients ---- */

/* Begins a request without a client, in which the script runs until it asks for the next one: it may
   buffer output, open a session or send headers as at any other time. */
static void begin_pause(void)
{
    SG(server_context) = (void *)boot;
    set_shutdown_functions_aside();
    discards_output = false;
    howdah_fill_request_info(boot);
    start_output();
    sapi_activate();
    howdah_messages_to_log();
    /* The rest of the request's time limit applies: its timer continues. */
}

/* Ends the request without a client: the boot, or a pause. Returns why the script must not continue, or
   0. */
static enum howdah_end end_pause(void)
{
    enum howdah_end end;

    in_request = true;
    discards_output = false;
    howdah_messages_to_client();
    end = end_request();
    in_request = false;
    if (end != HOWDAH_END_NONE) {
        return end;
    }
    if (has_booted && !is_warming) {
        return howdah_restore_state();
    }
    has_booted = true;
    is_warming = false;
    /* A restart that the boot has requested has no effect: its processes are new. */
    restart_requested = false;
    howdah_remember_state();
    return HOWDAH_END_NONE;
}

static void refuse_call(const char *message)
{
    zend_throw_exception(spl_ce_RuntimeException, message, 0);
}

ZEND_FUNCTION(frankenphp_handle_request)
{
    int goes_on;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(handler, handler_cache)
    ZEND_PARSE_PARAMETERS_END();

    if (resident == NULL) {
        refuse_call("frankenphp_handle_request() called while not in worker mode");
        RETURN_THROWS();
    }
    if (in_request) {
        refuse_call("frankenphp_handle_request() called while it handles a request");
        RETURN_THROWS();
    }
    if (EG(active_fiber)) {
        refuse_call("frankenphp_handle_request() called in a fiber");
        RETURN_THROWS();
    }
    if (!has_booted) {
        howdah_find_sessions();
    }
    pause_end = end_pause();
    if (pause_end != HOWDAH_END_NONE) {
        /* As exit() does: another process takes its place. */
        zend_throw_unwind_exit();
        RETURN_THROWS();
    }
    /* The time limit is left as it is: a process that waits uses no processor time. */
    goes_on = howdah_rust.serve(resident);
    begin_pause();
    RETURN_BOOL(goes_on);
}

ZEND_FUNCTION(howdah_opcache_reset)
{
    ZEND_PARSE_PARAMETERS_NONE();
    restart_requested = true;
    RETURN_TRUE;
}

/* opcache_reset() clears the memory that all processes of the application run from. In a resident
   application, it makes the application start again instead, with a memory of its own. */
static void replace_opcache_reset(void)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_reset"));

    if (function && function->type == ZEND_INTERNAL_FUNCTION) {
        function->internal_function.handler = ZEND_FN(howdah_opcache_reset);
    }
}

/* Keeps the message with which the script has ended. */
static void keep_error(void)
{
    if (PG(last_error_message)) {
        snprintf(boot_error, sizeof(boot_error), "%s in %s on line %d",
                 ZSTR_VAL(PG(last_error_message)),
                 PG(last_error_file) ? ZSTR_VAL(PG(last_error_file)) : "unknown file",
                 PG(last_error_lineno));
    }
}

bool howdah_php_compiles(const struct howdah_request *request)
{
    volatile bool compiles = false;

    boot = request;
    SG(server_context) = (void *)request;
    zend_first_try {
        howdah_fill_request_info(request);
        if (php_request_startup() == SUCCESS) {
            zend_file_handle file;

            howdah_messages_to_log();
            /* The caller reports the error that ends it. */
            EG(error_reporting) &= ~E_FATAL_ERRORS;
            zend_stream_init_filename(&file, SG(request_info).path_translated);
            compiles = php_lint_script(&file) == SUCCESS;
            zend_destroy_file_handle(&file);
        }
    } zend_catch {
    } zend_end_try();
    if (!compiles) {
        keep_error();
    }
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    SG(server_context) = NULL;
    return compiles;
}

enum howdah_end howdah_php_run_worker_script(const struct howdah_request *request, void *context)
{
    resident = context;
    boot = request;
    SG(server_context) = (void *)request;
    zend_first_try {
        howdah_fill_request_info(request);
        if (php_request_startup() == SUCCESS) {
            replace_opcache_reset();
            howdah_messages_to_log();
            howdah_run_script(request);
        }
    } zend_catch {
    } zend_end_try();
    if (!has_booted) {
        keep_error();
    } else if (pause_end == HOWDAH_END_NONE) {
        pause_end = PG(last_error_type) & E_FATAL_ERRORS ? cause_of_bailout() : HOWDAH_END_EXIT;
    }
    join_shutdown_functions();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    SG(server_context) = NULL;
    return pause_end;
}
