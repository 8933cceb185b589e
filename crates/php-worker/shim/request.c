/*
 * One request, from its parameters to the end of its shutdown functions.
 */
#include "internal.h"

#include "php_open_temporary_file.h"
#include <syslog.h>
#include <sys/stat.h>
#include <unistd.h>

/* Attributes of the script when the request began. OPcache takes the time stamp from here, which
   saves a system call. */
static zend_stat_t script_stat;
static bool have_script_stat, is_script_link;

zend_stat_t *howdah_script_stat(void)
{
    return have_script_stat ? &script_stat : NULL;
}

/* This process's own directory for uploaded files, or null. */
static char *upload_directory;

const char *howdah_php_upload_directory(void)
{
    const char *configured = PG(upload_tmp_dir);

    return configured && *configured ? configured : php_get_temporary_directory();
}

void howdah_php_set_upload_directory(const char *directory)
{
    free(upload_directory);
    upload_directory = strdup(directory);
}

void howdah_apply_upload_directory(void)
{
    if (upload_directory) {
        /* Sections of php.ini for a directory may set it for one request. */
        PG(upload_tmp_dir) = upload_directory;
    }
}

static int protocol_number(const struct howdah_string *protocol)
{
    if (protocol == NULL || strncmp(protocol->data, "HTTP/", 5) != 0) {
        return 1000;
    }
    if (strcmp(protocol->data, "HTTP/1.0") == 0) {
        return 1000;
    }
    return strcmp(protocol->data, "HTTP/1.1") == 0 ? 1001 : 2000;
}

/* Must run below zend_try: decoding credentials allocates. */
void howdah_fill_request_info(const struct howdah_request *request)
{
    const struct howdah_string *shown = HOWDAH_PARAM("HTTP_AUTHORIZATION");
    const struct howdah_string *authorization
        = request->authorization.data ? &request->authorization : shown;
    const struct howdah_string *type = HOWDAH_PARAM("CONTENT_TYPE");

    SG(request_info).request_method = howdah_value(HOWDAH_PARAM("REQUEST_METHOD"));
    SG(request_info).query_string = howdah_value(HOWDAH_PARAM("QUERY_STRING"));
    SG(request_info).request_uri = howdah_value(HOWDAH_PARAM("SCRIPT_NAME"));
    SG(request_info).path_translated = howdah_value(HOWDAH_PARAM("SCRIPT_FILENAME"));
    SG(request_info).content_type = type ? type->data : "";
    SG(request_info).content_length = request->content_length;
    SG(request_info).proto_num = protocol_number(HOWDAH_PARAM("SERVER_PROTOCOL"));
    if (request->is_of_web_server) {
        SG(request_info).request_uri = (char *)request->uri.data;
        SG(request_info).path_translated = (char *)request->script.data;
        /* As PHP-FPM, which does not know it: a redirect has status 302 for all methods. */
        SG(request_info).proto_num = 1000;
    }
    SG(request_info).argc = 0;
    SG(request_info).argv = NULL;
    SG(sapi_headers).http_response_code = (int)request->status;
    if (SG(request_info).request_method == NULL) {
        SG(request_info).request_method = "GET";
    }
    php_handle_auth_data(howdah_value(authorization));
    if (request->authorization.data && SG(request_info).auth_user == NULL) {
        /* As mod_php: the user that the server has checked. */
        const struct howdah_string *user = HOWDAH_PARAM("REMOTE_USER");

        SG(request_info).auth_user = user && HOWDAH_PARAM("AUTH_TYPE") ? estrdup(user->data) : NULL;
    }
}

void howdah_free_request_info(void)
{
    SG(request_info).request_method = NULL;
    SG(request_info).query_string = NULL;
    SG(request_info).request_uri = NULL;
    SG(request_info).path_translated = NULL;
    SG(request_info).content_type = NULL;
    SG(request_info).cookie_data = NULL;
    /* Freed by sapi_deactivate(). */
    SG(request_info).auth_user = NULL;
    SG(request_info).auth_password = NULL;
    SG(request_info).auth_digest = NULL;
    SG(request_info).content_type_dup = NULL;
    SG(request_info).current_user = NULL;
}

static bool has_dot_dot(const char *path)
{
    for (const char *p = path; (p = strstr(p, "..")) != NULL; p += 2) {
        if ((p == path || p[-1] == '/') && (p[2] == '/' || p[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* The permissions of the system do not let this process read the script. */
static bool is_denied;

static int status_of_error(void)
{
    is_denied = errno == EACCES;
    return is_denied ? 403 : 404;
}

/* Returns the status with which the script is refused; 0 if it can be run. The router has already
   chosen the file; this second check is in the process that opens it. */
static int refuse_script(const char *path, uint64_t name_rule)
{
    size_t len = path ? strlen(path) : 0;

    have_script_stat = false;
    is_denied = false;
    if (howdah_is_engine_off()) {
        return 403;
    }
    if (len == 0 || len >= MAXPATHLEN || path[0] != '/' || has_dot_dot(path)) {
        return 404;
    }
    /* Only names that certainly are scripts: compared byte for byte, in lower case. A .htaccess file may
       make PHP the handler of others, and the configuration may have other endings. */
    bool is_php = len >= sizeof("/.php") - 1 && strcmp(path + len - 4, ".php") == 0;
    bool is_script = name_rule == HOWDAH_NAME_ANY || (name_rule == HOWDAH_NAME_PHP && is_php);

    if (lstat(path, &script_stat) != 0) {
        return status_of_error();
    }
    is_script_link = S_ISLNK(script_stat.st_mode);
    if (is_script_link && stat(path, &script_stat) != 0) {
        return status_of_error();
    }
    if (S_ISDIR(script_stat.st_mode) && path[len - 1] != '/' && !is_script) {
        return 301;
    }
    if (!S_ISREG(script_stat.st_mode)) {
        return 404;
    }
    if (!is_script) {
        return 403;
    }
    /* A file that all users can read needs no access(). */
    if ((script_stat.st_mode & 0444) != 0444 && access(path, R_OK) != 0) {
        is_denied = true;
        return 403;
    }
    if (PG(open_basedir) && *PG(open_basedir) && php_check_open_basedir(path) != 0) {
        return 403;
    }
    have_script_stat = true;
    return 0;
}

/* The same for a script that a web server has chosen, with the responses and messages of PHP-FPM.
   Returns false if the script can be run. */
static bool refuse_script_of_web_server(const struct howdah_request *request, const char *path)
{
    static const char unknown[] = "Primary script unknown";
    char *message = NULL;
    int len = 0;

    have_script_stat = false;
    if (HOWDAH_PARAM("REQUEST_METHOD") == NULL) {
        return true; /* This is no request of HTTP. */
    }
    if (path == NULL) {
        howdah_rust.log(request->context, LOG_ERR, unknown, sizeof(unknown) - 1);
        SG(sapi_headers).http_response_code = 404;
        PUTS("File not found.\n");
        return true;
    }
    if (request->name_rule == HOWDAH_NAME_NONE) {
        len = spprintf(&message, 0,
                       "Access to the script '%s' has been denied (see security.limit_extensions)", path);
        SG(sapi_headers).http_response_code = 403;
        PUTS("Access denied.\n");
    } else {
        int error = 0;

        if (strlen(path) >= MAXPATHLEN || path[0] != '/') {
            error = ENOENT;
        } else if (lstat(path, &script_stat) != 0) {
            error = errno;
        } else {
            is_script_link = S_ISLNK(script_stat.st_mode);
            if (is_script_link && stat(path, &script_stat) != 0) {
                error = errno;
            } else if (!S_ISREG(script_stat.st_mode)) {
                error = ENOENT;
            } else if ((script_stat.st_mode & 0444) != 0444 && access(path, R_OK) != 0) {
                error = errno;
            } else if (PG(open_basedir) && *PG(open_basedir) && php_check_open_basedir(path) != 0) {
                error = EPERM;
            }
        }
        if (error == 0) {
            have_script_stat = true;
            return false;
        }
        len = spprintf(&message, 0, "Unable to open primary script: %s (%s)", path, strerror(error));
        SG(sapi_headers).http_response_code = error == EACCES ? 403 : 404;
        PUTS(error == EACCES ? "Access denied.\n" : "No input file specified.\n");
    }
    howdah_rust.log(request->context, LOG_ERR, message, len);
    efree(message);
    return true;
}

static const char *parameter(const char *name, char **owned, const char *otherwise)
{
    *owned = sapi_getenv(name, strlen(name));
    return *owned && **owned ? *owned : otherwise;
}

/* Redirects a request for a directory without its slash: relative links of its index would lead
   elsewhere. The location is Unit's, with the port that the client has connected to. */
static void redirect_to_directory(void)
{
    char *owned[4], *location;
    const char *target = parameter("REQUEST_URI", &owned[3], "/");
    size_t path_len = strcspn(target, "?#");
    const char *scheme = parameter("REQUEST_SCHEME", &owned[0], "http");
    const char *host = parameter("SERVER_NAME", &owned[1], "localhost");
    const char *port = parameter("SERVER_PORT", &owned[2], "80");
    bool usual = strcmp(port, strcmp(scheme, "https") == 0 ? "443" : "80") == 0;
    sapi_header_line line = {0};

    line.line_len = spprintf(&location, 0, "Location: %s://%s%s%s%.*s/%s", scheme, host,
                             usual ? "" : ":", usual ? "" : port, (int)path_len, target,
                             target + path_len);
    line.line = location;
    line.response_code = 301;
    sapi_header_op(SAPI_HEADER_REPLACE, &line);
    efree(location);
    for (size_t i = 0; i < 4; i++) {
        if (owned[i]) {
            efree(owned[i]);
        }
    }
}

static void refuse(const struct howdah_request *request, const char *path, int status)
{
    static const char unknown[] = "Primary script unknown";
    static const char denied[] = "Access to the script denied";

    if (status == 301) {
        redirect_to_directory();
        return;
    }
    SG(sapi_headers).http_response_code = status;
    if (status == 403) {
        if (is_denied) {
            howdah_rust.denied(request->context, path, strlen(path));
        } else {
            howdah_rust.log(request->context, LOG_ERR, denied, sizeof(denied) - 1);
        }
        PUTS("Access denied.\n");
    } else {
        howdah_rust.log(request->context, LOG_ERR, unknown, sizeof(unknown) - 1);
        PUTS("File not found.\n");
    }
}

/* PHP sets this status for errors that end a script: uncaught exceptions, memory_limit and
   max_execution_time among them. */
bool howdah_is_cut(void)
{
    return EG(exit_status) == 255;
}

/* Sets the status line of fastcgi.error_header after an error that has ended a script, as PHP-FPM
   does, unless the head is sent already. */
static void set_error_header(void)
{
    char *line = zend_ini_string("fastcgi.error_header", sizeof("fastcgi.error_header") - 1, 0);
    sapi_header_line header = {0};

    if (!howdah_is_cut() || SG(headers_sent) || line == NULL || *line == '\0') {
        return;
    }
    header.line = line;
    header.line_len = strlen(line);
    sapi_header_op(SAPI_HEADER_REPLACE, &header);
}

void howdah_run_script(const struct howdah_request *request)
{
    const char *path = SG(request_info).path_translated;
    int refused = 0;
    zend_file_handle file;

    EG(exit_status) = 0;
    if (request->is_of_web_server) {
        if (refuse_script_of_web_server(request, path)) {
            return;
        }
    } else {
        refused = refuse_script(path, request->name_rule);
    }
    if (refused) {
        refuse(request, path, refused);
        return;
    }
    /* By name: PHP opens the file only if OPcache has not cached it. */
    zend_stream_init_filename(&file, path);
    file.primary_script = 1;
    howdah_enter_directory_of(path, &script_stat, is_script_link);
    php_execute_script(&file);
    howdah_leave_directory();
    if (!file.in_list) {
        zend_destroy_file_handle(&file);
    }
    set_error_header();
}

/* PHP begins a request with max_input_time, the limit for reading the body, and replaces it with
   max_execution_time when the script begins. Without a body nothing is read, and no timer is set
   for that, which saves a system call. ini_get() does not show the change. */
static int start_request(const struct howdah_request *request)
{
    zend_long max_input_time = PG(max_input_time);
    int result;

    if (request->content_length == 0 && max_input_time > 0) {
        PG(max_input_time) = 0;
    }
    howdah_time_limit_begins(request->cpu_us);
    result = php_request_startup();
    howdah_note_body_limit();
    if (request->content_length != 0) {
        /* Reading the body does not count for the script. */
        howdah_time_limit_begins(0);
    }
    if (request->content_length == 0 && max_input_time > 0 && PG(max_input_time) == 0) {
        PG(max_input_time) = max_input_time;
    }
    return result;
}

void howdah_php_handle(const struct howdah_request *request, struct howdah_outcome *outcome)
{
    volatile bool has_begun = false;

    memset(outcome, 0, sizeof(*outcome));
    SG(server_context) = (void *)request;

    howdah_apply_upload_directory();
    zend_first_try {
        howdah_fill_request_info(request);
        howdah_apply_settings(request);
        has_begun = true;
        if (start_request(request) == SUCCESS) {
            howdah_run_script(request);
        } else {
            outcome->broken = 1;
        }
    } zend_catch {
        /* php_execute_script catches errors of the script; this catches a disconnected client
           during a refusal, and PHP running out of memory before the script. */
        howdah_leave_directory();
    } zend_end_try();

    outcome->peak_memory = zend_memory_peak_usage(1);
    outcome->cut = howdah_is_cut();
    if (!has_begun) {
        /* Credentials or settings that PHP cannot hold: there is no request to shut down. */
        outcome->broken = 1;
        SG(server_context) = NULL;
        return;
    }
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_catch {
        outcome->broken = 1;
    } zend_end_try();
    /* Functions of register_shutdown_function() and destructors fail, too. */
    outcome->cut |= howdah_is_cut();
    if (!outcome->broken) {
        howdah_read_opcache(&outcome->opcache);
    }

    have_script_stat = false;
    SG(request_info).path_translated = NULL;
    SG(server_context) = NULL;
}
