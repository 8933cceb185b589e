/*
 * The SAPI: loading PHP, and the functions that it calls to read a request and write a response.
 *
 * It calls itself "fpm-fcgi": OPcache refuses to run under a name that it does not know, and
 * applications treat that name as a production server.
 */
#include "internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "zend_extensions.h"
#include "zend_signal.h"

struct howdah_callbacks howdah_rust;

/* Runs below PHP's zend_try; a disconnected client ends the script unless ignore_user_abort is on. */
static size_t write_output(const char *data, size_t len)
{
    const struct howdah_request *request = howdah_client_request();

    if (request == NULL) {
        /* Messages while PHP is loaded, and of a worker script outside of a request. */
        return howdah_discards_output() ? len : fwrite(data, 1, len, stderr);
    }
    if (howdah_rust.write(request->context, data, len) != HOWDAH_OK) {
        php_handle_aborted_connection();
    }
    return len;
}

static void flush_output(void *context)
{
    const struct howdah_request *request = context;

    if (request == NULL || request->context == NULL) {
        return;
    }
    sapi_send_headers();
    if (howdah_rust.flush(request->context) != HOWDAH_OK) {
        php_handle_aborted_connection();
    }
}

static char *get_environment(const char *name, size_t len)
{
    if (howdah_request() == NULL) {
        char *value = getenv(name);

        /* PHP copies it at once. */
        return value ? value : (char *)howdah_rust.start_variable(name, len);
    }
    return howdah_environment(name, len);
}

static bool named(const sapi_header_struct *header, const char *name, size_t len)
{
    return header->header_len > len && strncasecmp(header->header, name, len) == 0;
}
#define NAMED(header, name) named(header, name, sizeof(name) - 1)

/* Returns the number and the reason in a text such as "404 Not Found"; 0 without three digits. */
static int status_of(const char *text, const char **reason)
{
    int status = 0;

    while (*text == ' ') {
        text++;
    }
    for (int i = 0; i < 3; i++, text++) {
        if (*text < '0' || *text > '9') {
            return 0;
        }
        status = status * 10 + (*text - '0');
    }
    if ((*text != ' ' && *text != '\0') || status < 100) {
        return 0;
    }
    while (*text == ' ') {
        text++;
    }
    *reason = text;
    return status;
}

/*
 * Returns the status of the response, from the first of: the line of header("HTTP/1.1 404 …"), a
 * field "Status: 404 …", the response code. As under PHP-FPM the line counts only if its status is
 * not 200. An invalid status is an error of the script: 500.
 */
static int final_status(sapi_headers_struct *headers, const char **reason)
{
    int status = headers->http_response_code;
    const char *line = headers->http_status_line;
    const char *space = line && strncasecmp(line, "HTTP/", 5) == 0 ? strchr(line, ' ') : NULL;
    zend_llist_position position;

    if (status == 200 || space == NULL || status_of(space, reason) != status) {
        *reason = "";
        for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position);
             header; header = zend_llist_get_next_ex(&headers->headers, &position)) {
            if (NAMED(header, "Status:")) {
                int given = status_of(header->header + sizeof("Status:") - 1, reason);

                status = given ? given : status;
                break;
            }
        }
    }
    if (status < 200 || status > 999) {
        *reason = "";
        status = 500;
    }
    return status;
}

/* As under PHP-FPM, "Status" is not a field of the response, and 304 has no Content-Type. */
int howdah_send_head(sapi_headers_struct *headers, int interim_status)
{
    const struct howdah_request *request = howdah_client_request();
    const char *reason = "";
    int status = interim_status ? interim_status : final_status(headers, &reason);
    zend_llist_position position;

    if (request == NULL) {
        return SAPI_HEADER_SENT_SUCCESSFULLY;
    }
    howdah_rust.head_begin(request->context, status, reason, strlen(reason));
    for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position);
         header; header = zend_llist_get_next_ex(&headers->headers, &position)) {
        if (header->header_len == 0 || NAMED(header, "Status:")
            || (status == 304 && NAMED(header, "Content-Type:"))) {
            continue;
        }
        howdah_rust.head_field(request->context, header->header, header->header_len);
    }
    if (interim_status == 0) {
        howdah_send_variables(request->context);
    }
    howdah_rust.head_end(request->context, interim_status != 0);
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static int send_headers(sapi_headers_struct *headers)
{
    return howdah_send_head(headers, 0);
}

static size_t read_post(char *buffer, size_t len)
{
    const struct howdah_request *request = howdah_client_request();

    return request ? howdah_rust.read(request->context, buffer, len) : 0;
}

static char *read_cookies(void)
{
    return howdah_value(HOWDAH_PARAM("HTTP_COOKIE"));
}

static void log_message(const char *message, int severity)
{
    const struct howdah_request *request = howdah_client_request();

    howdah_rust.log(request ? request->context : NULL, severity, message, strlen(message));
}

static sapi_module_struct howdah_sapi = {
    .name = "fpm-fcgi",
    .pretty_name = "Howdah",
    .startup = howdah_start_modules,
    .shutdown = php_module_shutdown_wrapper,
    .HOWDAH_READS_USER_INI = howdah_user_ini_activate,
    .deactivate = howdah_forget_variables,
    .ub_write = write_output,
    .flush = flush_output,
    .get_stat = howdah_script_stat,
    .getenv = get_environment,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = howdah_register_variables,
    .log_message = log_message,
    .php_ini_ignore_cwd = 1,
};

/* Process id while PHP is being loaded, otherwise 0. OPcache calls exit() when it cannot start. */
static pid_t loading;

static void at_exit(void)
{
    if (loading == getpid()) {
        howdah_rust.exiting();
    }
}

void howdah_loading_begins(void)
{
    loading = getpid();
}

/* Default directory of OPcache's lock file, or null; php.ini and settings override it. */
static const char *lock_directory;

/* Called before php.ini is read, which overrides these values. */
static void ini_defaults(HashTable *configuration)
{
    const struct {
        const char *name, *text;
    } defaults[] = {
        {"opcache.lockfile_path", lock_directory},
        {"sendmail_path", howdah_sendmail_command()},
    };
    zval value;

    for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++) {
        if (defaults[i].text) {
            ZVAL_NEW_STR(&value, zend_string_init(defaults[i].text, strlen(defaults[i].text), 1));
            zend_hash_str_update(configuration, defaults[i].name, strlen(defaults[i].name), &value);
        }
    }
}

static zend_result (*open_script)(zend_file_handle *handle);

/* PHP keeps the script open while it runs; closes it on exec, so that programs that it starts do
 * not inherit the descriptor. */
static zend_result open_script_close_on_exec(zend_file_handle *handle)
{
    zend_result result = open_script(handle);

    if (result == SUCCESS && handle->type == ZEND_HANDLE_STREAM) {
        php_stream *stream = handle->handle.stream.handle;
        int fd;

        if (php_stream_is(stream, PHP_STREAM_IS_STDIO)
            && php_stream_cast(stream, PHP_STREAM_AS_FD, (void **)&fd, 0) == SUCCESS) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    return result;
}

void howdah_hook_open(void)
{
    open_script = zend_stream_open_function;
    zend_stream_open_function = open_script_close_on_exec;
}

static int (*register_extensions)(void);

/* PHP calls this after it has read its settings, and loads the extensions that they name after it. Warnings of the start
   are for the log: they are no HTML. */
static int register_with_plain_errors(void)
{
    PG(html_errors) = 0;
    return register_extensions();
}

int howdah_php_start(const struct howdah_callbacks *callbacks, const char *ini,
                     const char *ini_file, const char *lock_dir)
{
    int status = FAILURE;

    howdah_rust = *callbacks;
    howdah_loading_begins();
    atexit(at_exit);
    howdah_prepare_time_limits();
    zend_signal_startup();
    sapi_startup(&howdah_sapi);
    /* PHP keeps both pointers for the life of the process. */
    howdah_sapi.ini_entries = strdup(ini);
    howdah_sapi.php_ini_path_override = ini_file ? strdup(ini_file) : NULL;
    lock_directory = lock_dir ? strdup(lock_dir) : NULL;
    howdah_sapi.ini_defaults = ini_defaults;
    register_extensions = php_register_internal_extensions_func;
    php_register_internal_extensions_func = register_with_plain_errors;
    zend_first_try {
        status = howdah_sapi.startup(&howdah_sapi);
        /* With display_startup_errors, PHP writes its warnings to the library's buffer. */
        fflush(stdout);
    } zend_catch {
        status = FAILURE;
    } zend_end_try();
    loading = 0;
    if (status == SUCCESS) {
        zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("html_errors"));

        PG(html_errors) = entry && entry->value && zend_ini_parse_bool(entry->value);
        howdah_hook_environment();
        howdah_hook_uploads();
    }
    return status == SUCCESS ? 0 : -1;
}

int howdah_php_lock(const char *name, size_t len)
{
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, len);

    if (entry == NULL) {
        return -1;
    }
    entry->modifiable = ZEND_INI_SYSTEM;
    return 0;
}

void howdah_php_disable_functions(const char *list)
{
    zend_first_try {
        zend_disable_functions(list);
    } zend_end_try();
}

static void disable_class(const char *name, size_t len)
{
    zend_first_try {
        howdah_disable_class(name, len);
    } zend_end_try();
}

void howdah_php_disable_classes(const char *list)
{
    while (*list) {
        size_t len = strcspn(list, ", \t");

        if (len > 0) {
            disable_class(list, len);
        }
        list += len;
        list += strspn(list, ", \t");
    }
}

int64_t howdah_php_memory_limit(void)
{
    return PG(memory_limit);
}

const char *howdah_php_version(void)
{
    zval *version = zend_get_constant_str("PHP_VERSION", sizeof("PHP_VERSION") - 1);

    return version && Z_TYPE_P(version) == IS_STRING ? Z_STRVAL_P(version) : PHP_VERSION;
}

const char *howdah_php_setting(const char *name, size_t len)
{
    bool exists;
    const char *value = zend_ini_string_ex(name, len, 0, &exists);

    return exists ? value : NULL;
}

const char *howdah_php_opcache(void)
{
    zend_extension *extension = zend_get_extension("Zend OPcache");

    /* If OPcache refuses to run, it stays loaded and removes its hooks. */
    if (extension == NULL || extension->startup == NULL || zend_compile_file == compile_file) {
        return NULL;
    }
    return extension->version;
}

void howdah_php_child(void)
{
    howdah_directory_child();
    howdah_time_limit_child();
    howdah_report_crashes();
    howdah_watch_process();
    /* Random numbers of the parent must not be repeated in every child. */
    howdah_forget_random_state();
#ifdef ZEND_SIGNALS
    /* Keeps PHP from installing handlers of HUP, INT, QUIT, TERM, USR1 and USR2 for each request:
       this process has handlers for them that do nothing. */
    SIGG(reset) = 0;
#endif
}
