/*
 * The module of this SAPI: functions that PHP-FPM, Apache and FrankenPHP give to scripts.
 */
#include "internal.h"
#include "ext/standard/head.h"
#include "ext/standard/info.h"
#include "ext/json/php_json.h"
#include "zend_smart_str.h"

#include <syslog.h>

bool howdah_fix_pathinfo = 1;

PHP_INI_BEGIN()
PHP_INI_ENTRY_EX("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, NULL, zend_ini_boolean_displayer_cb)
PHP_INI_ENTRY_EX("cgi.discard_path", "0", PHP_INI_SYSTEM, NULL, zend_ini_boolean_displayer_cb)
PHP_INI_ENTRY("fastcgi.error_header", NULL, PHP_INI_SYSTEM, NULL)
PHP_INI_ENTRY_EX("fastcgi.logging", "1", PHP_INI_SYSTEM, NULL, zend_ini_boolean_displayer_cb)
PHP_INI_END()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_finish_request, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_handle_request, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, callback, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_log, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_purge, 0, 0, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tags, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, all, _IS_BOOL, 0, "false")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, soft, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_status, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

/* Ends the response while the script continues. Its further output is dropped; unlike under PHP-FPM,
   output does not end the script. */
ZEND_FUNCTION(fastcgi_finish_request)
{
    const struct howdah_request *request = howdah_client_request();

    ZEND_PARSE_PARAMETERS_NONE();

    if (request == NULL) {
        RETURN_FALSE;
    }
    php_output_end_all();
    php_header();
    if (!howdah_rust.finish(request->context)) {
        RETURN_FALSE;
    }
    php_output_set_status(PHP_OUTPUT_DISABLED);
    RETURN_TRUE;
}

ZEND_FUNCTION(apache_request_headers)
{
    const struct howdah_request *request = howdah_request();

    ZEND_PARSE_PARAMETERS_NONE();

    array_init(return_value);
    if (request == NULL) {
        return;
    }
    for (size_t i = 0; i < request->param_count; i++) {
        const struct howdah_param *param = &request->params[i];

        sapi_add_request_header(param->name.data, param->name.len, (char *)param->value.data,
                                param->value.len, return_value);
    }
    if (request->authorization.len > 0) {
        add_assoc_stringl(return_value, "Authorization", request->authorization.data,
                          request->authorization.len);
    }
}

ZEND_FUNCTION(apache_response_headers)
{
    zend_llist_position position;
    zend_llist *headers = &SG(sapi_headers).headers;

    ZEND_PARSE_PARAMETERS_NONE();

    array_init(return_value);
    for (sapi_header_struct *header = zend_llist_get_first_ex(headers, &position); header;
         header = zend_llist_get_next_ex(headers, &position)) {
        const char *end = header->header + header->header_len;
        const char *colon = memchr(header->header, ':', header->header_len);
        const char *value;

        if (colon == NULL || colon == header->header) {
            continue;
        }
        for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++) {
        }
        add_assoc_stringl_ex(return_value, header->header, colon - header->header, value,
                             end - value);
    }
}

/* Sends the header fields set so far. A status of 1xx makes this an interim response: the fields
   and the status of the final response stay unchanged. */
ZEND_FUNCTION(headers_send)
{
    zend_long status = 200;

    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
    ZEND_PARSE_PARAMETERS_END();

    if (status < 100 || status > 999) {
        zend_argument_value_error(1, "must be between 100 and 999");
        RETURN_THROWS();
    }
    if (status >= 200) {
        SG(sapi_headers).http_response_code = (int)status;
        RETURN_LONG(sapi_send_headers());
    }
    if (howdah_client_request() == NULL || SG(headers_sent)) {
        RETURN_LONG(SAPI_HEADER_SEND_FAILED);
    }
    RETURN_LONG(howdah_send_head(&SG(sapi_headers), (int)status));
}

/* Returns PHP-FPM's pool status, with additions, for the application that runs the script. */
ZEND_FUNCTION(fpm_get_status)
{
    const struct howdah_request *request = howdah_client_request();
    const char *text;
    size_t len = 0;

    ZEND_PARSE_PARAMETERS_NONE();

    if (request == NULL) {
        RETURN_FALSE;
    }
    text = howdah_rust.status(request->context, &len);
    if (len == 0
        || php_json_decode_ex(return_value, text, len, PHP_JSON_OBJECT_AS_ARRAY, 16) != SUCCESS) {
        zval_ptr_dtor(return_value);
        RETURN_FALSE;
    }
}

/* Levels of frankenphp_log(), as of Go's package log/slog. */
enum { LEVEL_DEBUG = -4, LEVEL_INFO = 0, LEVEL_WARN = 4, LEVEL_ERROR = 8 };

/* Writes to the log, with the context as JSON. */
ZEND_FUNCTION(frankenphp_log)
{
    const struct howdah_request *request = howdah_client_request();
    zend_string *message;
    zend_long level = LEVEL_INFO;
    zval *context = NULL;
    smart_str text = {0};
    int severity;

    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(message)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(level)
        Z_PARAM_ARRAY(context)
    ZEND_PARSE_PARAMETERS_END();

    severity = level >= LEVEL_ERROR  ? LOG_ERR
               : level >= LEVEL_WARN ? LOG_WARNING
               : level >= LEVEL_INFO ? LOG_INFO
                                     : LOG_DEBUG;
    smart_str_append(&text, message);
    if (context && zend_hash_num_elements(Z_ARRVAL_P(context)) > 0) {
        smart_str_appendc(&text, ' ');
        php_json_encode(&text, context,
                        PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE
                            | PHP_JSON_PARTIAL_OUTPUT_ON_ERROR);
    }
    smart_str_0(&text);
    if (text.s && !EG(exception)) {
        howdah_rust.log(request ? request->context : NULL, severity, ZSTR_VAL(text.s),
                        ZSTR_LEN(text.s));
    }
    smart_str_free(&text);
}

/* As in the crate `cache`, whose fields carry the tags of responses. */
#define MAX_TAG_LENGTH 1024

static bool is_tag(const char *tag, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)tag[i] <= ' ' || tag[i] == ',' || tag[i] == 0x7f) {
            return false;
        }
    }
    return len > 0 && len <= MAX_TAG_LENGTH;
}

/* Purges cached responses of the request's host: those with one of the tags, or all. Returns false outside
   of a client's request. */
ZEND_FUNCTION(howdah_cache_purge)
{
    const struct howdah_request *request = howdah_client_request();
    HashTable *tags = NULL;
    bool all = false, soft = false;
    smart_str list = {0};
    zval *tag;

    ZEND_PARSE_PARAMETERS_START(0, 3)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(tags)
        Z_PARAM_BOOL(all)
        Z_PARAM_BOOL(soft)
    ZEND_PARSE_PARAMETERS_END();

    if (tags) {
        ZEND_HASH_FOREACH_VAL(tags, tag) {
            ZVAL_DEREF(tag);
            if (Z_TYPE_P(tag) != IS_STRING || !is_tag(Z_STRVAL_P(tag), Z_STRLEN_P(tag))) {
                smart_str_free(&list);
                zend_argument_value_error(
                    1, "must contain strings of 1 to 1024 characters without spaces and commas");
                RETURN_THROWS();
            }
            smart_str_append(&list, Z_STR_P(tag));
            smart_str_appendc(&list, '\n');
        } ZEND_HASH_FOREACH_END();
    }
    if (request && (all || list.s)) {
        howdah_rust.purge(request->context, all | soft << 1, list.s ? ZSTR_VAL(list.s) : "",
                          list.s ? ZSTR_LEN(list.s) : 0);
    }
    smart_str_free(&list);
    RETURN_BOOL(request != NULL);
}

static const zend_function_entry functions[] = {
    ZEND_FE(fastcgi_finish_request, arginfo_finish_request)
    ZEND_FE(apache_request_headers, arginfo_headers)
    ZEND_FALIAS(getallheaders, apache_request_headers, arginfo_headers)
    ZEND_FE(apache_response_headers, arginfo_headers)
    ZEND_FE(headers_send, arginfo_headers_send)
    ZEND_FE(fpm_get_status, arginfo_status)
    ZEND_FE(frankenphp_handle_request, arginfo_handle_request)
    ZEND_FALIAS(frankenphp_finish_request, fastcgi_finish_request, arginfo_finish_request)
    ZEND_FALIAS(frankenphp_request_headers, apache_request_headers, arginfo_headers)
    ZEND_FALIAS(frankenphp_response_headers, apache_response_headers, arginfo_headers)
    ZEND_FE(frankenphp_log, arginfo_log)
    ZEND_FE(howdah_cache_purge, arginfo_purge)
    ZEND_FE_END
};

static bool skips_preload;
static char *preload;

void howdah_php_skip_preload(void)
{
    skips_preload = true;
}

const char *howdah_php_preload(void)
{
    return preload;
}

/* OPcache reads the setting later, when Zend extensions are started. */
static void take_preload_away(void)
{
    zval *setting = cfg_get_entry(ZEND_STRL("opcache.preload"));

    if (setting && Z_TYPE_P(setting) == IS_STRING) {
        preload = strdup(Z_STRVAL_P(setting));
        ZVAL_EMPTY_STRING(setting);
    }
}

void howdah_read_settings(void)
{
    howdah_fix_pathinfo = zend_ini_long("cgi.fix_pathinfo", sizeof("cgi.fix_pathinfo") - 1, 0) != 0;
}

static void register_log_level(const char *name, int level, int module_number)
{
    zend_register_long_constant(name, strlen(name), level, CONST_PERSISTENT, module_number);
}

static PHP_MINIT_FUNCTION(howdah)
{
    (void)type;
    if (skips_preload) {
        take_preload_away();
    }
    howdah_define_apache_functions();
    REGISTER_INI_ENTRIES();
    register_log_level("FRANKENPHP_LOG_LEVEL_DEBUG", LEVEL_DEBUG, module_number);
    register_log_level("FRANKENPHP_LOG_LEVEL_INFO", LEVEL_INFO, module_number);
    register_log_level("FRANKENPHP_LOG_LEVEL_WARN", LEVEL_WARN, module_number);
    register_log_level("FRANKENPHP_LOG_LEVEL_ERROR", LEVEL_ERROR, module_number);
    howdah_read_settings();
    howdah_user_ini_startup();
    howdah_hook_open();
    howdah_register_pause();
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(howdah)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "Howdah", "active");
    php_info_print_table_end();
    display_ini_entries(zend_module);
}

static zend_module_entry howdah_module = {
    STANDARD_MODULE_HEADER,
    "cgi-fcgi",
    functions,
    PHP_MINIT(howdah),
    NULL,
    NULL,
    NULL,
    PHP_MINFO(howdah),
    PHP_VERSION,
    STANDARD_MODULE_PROPERTIES,
};

/* The extension of NGINX Unit, by which scripts recognise it. It has no functions. */
static zend_module_entry unit_module = {
    STANDARD_MODULE_HEADER,
    "unit",
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    PHP_VERSION,
    STANDARD_MODULE_PROPERTIES,
};

zend_result howdah_start_modules(sapi_module_struct *module)
{
    zend_result result = howdah_module_startup(module, &howdah_module);

    if (result == SUCCESS) {
        unit_module.type = MODULE_PERSISTENT;
        /* The name must be stored permanently. At this point PHP stores strings for one request, in
         * a table that exists only during a request, unless OPcache has replaced it. */
        zend_interned_strings_switch_storage(0);
        result = zend_startup_module(&unit_module);
        zend_interned_strings_switch_storage(1);
    }
    return result;
}
