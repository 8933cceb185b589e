/*
 * Functions of Apache's mod_php, for applications with .htaccess files. The others have only those of
 * functions.c. virtual() and apache_lookup_uri() are missing: they need a request within the request.
 *
 * Variables and notes belong to a request. Their names are compared without regard to case, and end at
 * a NUL, as in Apache.
 */
#include "internal.h"

#include "zend_smart_str.h"

/* Begins a line of a response's head that is a variable for the router. No field has this name. */
#define VARIABLE_LINE "\x01" "env:"

/* Maximum length of a line of a variable, and of all in a head, in bytes. Longer lines are not sent. */
#define MAX_LINE 256
#define MAX_LINES 4096

struct variable {
    zend_string *name;
    zend_string *value;
};

/* The application is to have these functions. */
static bool wanted;

/* By names in lower case; null if empty. In the memory of the request. */
static HashTable *environment, *notes;

static void free_variable(zval *element)
{
    struct variable *variable = Z_PTR_P(element);

    zend_string_release(variable->name);
    zend_string_release(variable->value);
    efree(variable);
}

static void forget(HashTable **table)
{
    HashTable *old = *table;

    *table = NULL;
    if (old) {
        zend_hash_destroy(old);
        FREE_HASHTABLE(old);
    }
}

int howdah_forget_variables(void)
{
    forget(&environment);
    forget(&notes);
    return SUCCESS;
}

static zend_string *find(const HashTable *table, const char *name, size_t len)
{
    zend_string *key;
    const struct variable *variable;

    if (table == NULL) {
        return NULL;
    }
    key = zend_string_alloc(len, 0);
    zend_str_tolower_copy(ZSTR_VAL(key), name, len);
    variable = zend_hash_find_ptr(table, key);
    zend_string_release(key);
    return variable ? variable->value : NULL;
}

static void put(HashTable **table, const char *name, const char *value)
{
    size_t len = strlen(name);
    struct variable *variable = emalloc(sizeof(*variable));
    zend_string *key = zend_string_alloc(len, 0);

    if (*table == NULL) {
        ALLOC_HASHTABLE(*table);
        zend_hash_init(*table, 8, NULL, free_variable, 0);
    }
    zend_str_tolower_copy(ZSTR_VAL(key), name, len);
    variable->name = zend_string_init(name, len, 0);
    variable->value = zend_string_init(value, strlen(value), 0);
    zend_hash_update_ptr(*table, key, variable);
    zend_string_release(key);
}

/* Returns the parameter of the current request with this name, in any case. */
static const struct howdah_string *parameter(const char *name, size_t len)
{
    const struct howdah_request *request = howdah_request();

    for (size_t i = 0; request && i < request->param_count; i++) {
        const struct howdah_param *param = &request->params[i];

        if (zend_binary_strcasecmp(param->name.data, param->name.len, name, len) == 0) {
            return &param->value;
        }
    }
    return NULL;
}

zend_string *howdah_changed_variable(const char *name, size_t len)
{
    return find(environment, name, len);
}

char *howdah_environment(const char *name, size_t len)
{
    zend_string *changed = howdah_changed_variable(name, len);
    const struct howdah_string *value = howdah_param(name, len);

    if (changed) {
        return ZSTR_VAL(changed);
    }
    return howdah_value(value == NULL && wanted ? parameter(name, len) : value);
}

void howdah_each_new_variable(void (*each)(zend_string *name, zend_string *value, void *context),
                              void *context)
{
    const struct variable *variable;

    if (environment == NULL) {
        return;
    }
    ZEND_HASH_FOREACH_PTR(environment, variable) {
        if (parameter(ZSTR_VAL(variable->name), ZSTR_LEN(variable->name)) == NULL) {
            each(variable->name, variable->value, context);
        }
    } ZEND_HASH_FOREACH_END();
}

void howdah_send_variables(void *context)
{
    const struct variable *variable;
    size_t sent = 0;

    if (environment == NULL) {
        return;
    }
    ZEND_HASH_FOREACH_PTR(environment, variable) {
        char line[MAX_LINE];
        int len = snprintf(line, sizeof(line), VARIABLE_LINE "%s=%s", ZSTR_VAL(variable->name),
                           ZSTR_VAL(variable->value));

        if (len > 0 && (size_t)len < sizeof(line) && sent + (size_t)len <= MAX_LINES) {
            howdah_rust.head_field(context, line, (size_t)len);
            sent += (size_t)len;
        }
    } ZEND_HASH_FOREACH_END();
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_get_modules, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_get_version, 0, 0, MAY_BE_STRING | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_getenv, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_setenv, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_note, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, note_name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, note_value, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

/* Returns the modules whose directives .htaccess files may have. */
ZEND_FUNCTION(apache_get_modules)
{
    static const char *const modules[] = {
        "core",           "mod_so",          "mod_access_compat",   "mod_alias",
        "mod_auth_basic", "mod_authn_core",  "mod_authn_file",      "mod_authz_core",
        "mod_authz_host", "mod_authz_user",  "mod_authz_groupfile", "mod_autoindex",
        "mod_deflate",    "mod_dir",         "mod_env",             "mod_expires",
        "mod_filter",     "mod_headers",     "mod_mime",            "prefork",
        "mod_negotiation", "mod_php",        "mod_rewrite",         "mod_setenvif",
    };

    ZEND_PARSE_PARAMETERS_NONE();

    array_init(return_value);
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        add_next_index_string(return_value, modules[i]);
    }
}

/* Returns SERVER_SOFTWARE, as in Apache. */
ZEND_FUNCTION(apache_get_version)
{
    const struct howdah_string *software = HOWDAH_PARAM("SERVER_SOFTWARE");

    ZEND_PARSE_PARAMETERS_NONE();

    if (software == NULL || software->len == 0) {
        RETURN_FALSE;
    }
    RETURN_STRINGL(software->data, software->len);
}

/* The last parameter of these two is about requests that virtual() makes, of which there are none. */
ZEND_FUNCTION(apache_getenv)
{
    const struct howdah_string *value;
    zend_string *changed;
    char *name;
    size_t len;
    bool walk_to_top = false;

    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STRING(name, len)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(walk_to_top)
    ZEND_PARSE_PARAMETERS_END();

    (void)walk_to_top;
    len = strlen(name);
    changed = find(environment, name, len);
    if (changed) {
        RETURN_STR_COPY(changed);
    }
    value = parameter(name, len);
    if (value == NULL) {
        RETURN_FALSE;
    }
    RETURN_STRINGL(value->data, value->len);
}

ZEND_FUNCTION(apache_setenv)
{
    char *name, *value;
    size_t name_len, value_len;
    bool walk_to_top = false;

    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STRING(name, name_len)
        Z_PARAM_STRING(value, value_len)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(walk_to_top)
    ZEND_PARSE_PARAMETERS_END();

    (void)name_len, (void)value_len, (void)walk_to_top;
    put(&environment, name, value);
    RETURN_TRUE;
}

/* Sets a note unless the value is null. Returns the earlier value. */
ZEND_FUNCTION(apache_note)
{
    char *name, *value = NULL;
    size_t name_len, value_len = 0;
    zend_string *earlier;

    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STRING(name, name_len)
        Z_PARAM_OPTIONAL
        Z_PARAM_STRING_OR_NULL(value, value_len)
    ZEND_PARSE_PARAMETERS_END();

    (void)name_len, (void)value_len;
    earlier = find(notes, name, strlen(name));
    if (earlier) {
        RETVAL_STR_COPY(earlier);
    } else {
        RETVAL_FALSE;
    }
    if (value) {
        put(&notes, name, value);
    }
}

static const zend_function_entry apache_functions[] = {
    ZEND_FE(apache_get_modules, arginfo_get_modules)
    ZEND_FE(apache_get_version, arginfo_get_version)
    ZEND_FE(apache_getenv, arginfo_getenv)
    ZEND_FE(apache_setenv, arginfo_setenv)
    ZEND_FE(apache_note, arginfo_note)
    ZEND_FE_END
};

void howdah_php_define_apache_functions(void)
{
    wanted = true;
}

void howdah_define_apache_functions(void)
{
    if (wanted) {
        zend_register_functions(NULL, apache_functions, NULL, MODULE_PERSISTENT);
    }
}

/* Before OPcache starts: it takes a function for missing or not when it compiles a script. */
void howdah_define_apache_functions_late(void)
{
    if (!wanted) {
        return;
    }
    EG(current_module) = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("cgi-fcgi"));
    howdah_define_apache_functions();
    EG(current_module) = NULL;
    /* PHP has done this before the start was paused. */
    zend_disable_functions(INI_STR("disable_functions"));
}
