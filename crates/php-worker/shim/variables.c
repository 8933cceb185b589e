/*
 * CGI parameters as PHP variables: $_SERVER, $_ENV and getenv(), as under FastCGI.
 */
#include "internal.h"

static void (*import_process_environment)(zval *array);

const struct howdah_string *howdah_param(const char *name, size_t len)
{
    const struct howdah_request *request = howdah_request();

    if (request == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < request->param_count; i++) {
        const struct howdah_param *param = &request->params[i];

        if (param->name.len == len && memcmp(param->name.data, name, len) == 0) {
            return &param->value;
        }
    }
    return NULL;
}

/* Registers a value through the input filter, so that filter_input(INPUT_SERVER, …) returns it as
 * well. */
static void register_filtered(int source, const char *name, const char *value, size_t len,
                              zval *array)
{
    char *filtered = (char *)value;
    size_t filtered_len = len;

    if (sapi_module.input_filter(source, name, &filtered, len, &filtered_len)) {
        php_register_variable_safe(name, filtered, filtered_len, array);
    }
}

static void register_new(zend_string *name, zend_string *value, void *array)
{
    php_register_variable_safe(ZSTR_VAL(name), ZSTR_VAL(value), ZSTR_LEN(value), array);
}

/* Where register_new_filtered() puts variables. */
struct target {
    zval *array;
    int source;
};

static void register_new_filtered(zend_string *name, zend_string *value, void *context)
{
    const struct target *target = context;

    register_filtered(target->source, ZSTR_VAL(name), ZSTR_VAL(value), ZSTR_LEN(value), target->array);
}

/* Returns the value of a parameter, which the script may have changed. */
static struct howdah_string current_value(const struct howdah_param *param)
{
    zend_string *changed = howdah_changed_variable(param->name.data, param->name.len);
    struct howdah_string value = param->value;

    if (changed) {
        value.data = ZSTR_VAL(changed);
        value.len = ZSTR_LEN(changed);
    }
    return value;
}

/* Loads the environment for getenv() without a name, unfiltered. */
static void load_environment(zval *array)
{
    const struct howdah_request *request = howdah_request();

    import_process_environment(array);
    if (request == NULL) {
        return;
    }
    for (size_t i = 0; i < request->param_count; i++) {
        const struct howdah_param *param = &request->params[i];

        struct howdah_string value = current_value(param);

        php_register_variable_safe(param->name.data, value.data, value.len, array);
    }
    howdah_each_new_variable(register_new, array);
}

/* Returns true if PHP is filling $_ENV (TRACK_VARS_ENV) or $_SERVER (TRACK_VARS_SERVER). */
static bool is_global(const zval *array, int global)
{
    const zval *found = &PG(http_globals)[global];

    return Z_TYPE_P(found) == IS_ARRAY && Z_ARR_P(found) == Z_ARR_P(array);
}

static void import_environment(zval *array)
{
    const struct howdah_request *request = howdah_request();
    bool is_env = is_global(array, TRACK_VARS_ENV);
    struct target target = {array, is_env ? PARSE_ENV : PARSE_SERVER};

    if (!is_env && !is_global(array, TRACK_VARS_SERVER)) {
        /* For getenv(), which calls this, or a newer function that does the same by default. */
        load_environment(array);
        return;
    }
    import_process_environment(array);
    /* $_ENV of a worker script is the same for all requests. */
    if (request == NULL || (is_env && howdah_is_resident())) {
        return;
    }
    for (size_t i = 0; i < request->param_count; i++) {
        const struct howdah_param *param = &request->params[i];
        struct howdah_string value = current_value(param);

        register_filtered(target.source, param->name.data, value.data, value.len, array);
    }
    howdah_each_new_variable(register_new_filtered, &target);
}

void howdah_hook_environment(void)
{
    import_process_environment = php_import_environment_variables;
    php_import_environment_variables = import_environment;
}

/* Registers the parameters and PHP_SELF: the script's name and, unless cgi.fix_pathinfo is off, the
   path after it. PHP itself adds REQUEST_TIME and the credentials. */
void howdah_register_variables(zval *array)
{
    const struct howdah_request *request = howdah_request();
    const struct howdah_string *name = request && request->is_of_web_server
                                           ? &request->uri : HOWDAH_PARAM("SCRIPT_NAME");
    const struct howdah_string *info = HOWDAH_PARAM("PATH_INFO");
    size_t name_len = name ? name->len : 0;
    size_t info_len = info && howdah_fix_pathinfo ? info->len : 0;
    char *self = emalloc(name_len + info_len + 1);

    if (name_len > 0) {
        memcpy(self, name->data, name_len);
    }
    if (info_len > 0) {
        memcpy(self + name_len, info->data, info_len);
    }
    self[name_len + info_len] = '\0';

    php_import_environment_variables(array);
    register_filtered(PARSE_SERVER, "PHP_SELF", self, name_len + info_len, array);
    efree(self);
}
