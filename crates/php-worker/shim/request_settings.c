/*
 * Settings that routes and .htaccess files have for one request (php_value, php_flag), as under mod_php:
 * applied before the request starts, restored by PHP at its end. A setting that does not exist, that may
 * not be set per directory or that the administrator has set stays as it is. Routes may lock a setting:
 * PHP then refuses other changes until the end of the request, when it restores the right to change it.
 */
#include "internal.h"

#include "zend_ini_scanner.h"
#include <syslog.h>

/* The setting "engine" of mod_php. */
static bool engine_off;

bool howdah_is_engine_off(void)
{
    return engine_off;
}

static bool is_named(const struct howdah_string *name, const char *text, size_t len)
{
    return name->len == len && memcmp(name->data, text, len) == 0;
}

static void apply(const struct howdah_setting *setting)
{
    zend_ini_entry *entry
        = zend_hash_str_find_ptr(EG(ini_directives), setting->name.data, setting->name.len);
    zend_string *value;

    if (entry == NULL) {
        return;
    }
    if (setting->is_locked && entry->modified) {
        /* It is locked already, and is applied again after the files of the directory. */
        entry->modifiable = entry->orig_modifiable;
    }
    if (!(entry->modifiable & PHP_INI_PERDIR)) {
        return;
    }
    /* Not in the memory of the request: no value can exceed memory_limit. */
    value = zend_string_init(setting->value.data, setting->value.len, 1);
    zend_alter_ini_entry(entry->name, value, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
    if (setting->is_locked && entry->modified) {
        /* Not PHP_INI_SYSTEM, as in sections of php.ini for a host: OPcache would take the value for that
           of all requests, and compile ini_get() to it. */
        entry->modifiable = 0;
    }
    zend_string_release(value);
}

/* As mod_php has it: the last value counts. */
static bool turns_engine_off(const struct howdah_setting *setting)
{
    zend_string *value = zend_string_init(setting->value.data, setting->value.len, 1);
    bool on = zend_ini_parse_bool(value);

    zend_string_release(value);
    return !on;
}

/* Applies a setting that a web server has given in PHP_VALUE or, if `admin` points to true, in
   PHP_ADMIN_VALUE: as in PHP-FPM, that may be any setting, and scripts cannot change it. */
static void apply_of_web_server(zval *name, zval *text, zval *index, int type, void *admin)
{
    zend_ini_entry *entry;
    zend_string *value;
    bool is_admin = *(bool *)admin;

    (void)index;
    if (name == NULL) {
        return;
    }
    if (type != ZEND_INI_PARSER_ENTRY) {
        static const char refused[] = "Passing INI directive through FastCGI: only classic entries are allowed";

        howdah_rust.log(howdah_request()->context, LOG_ERR, refused, sizeof(refused) - 1);
        return;
    }
    if (text == NULL || Z_TYPE_P(name) != IS_STRING || Z_TYPE_P(text) != IS_STRING) {
        return;
    }
    entry = zend_hash_find_ptr(EG(ini_directives), Z_STR_P(name));
    if (entry == NULL) {
        char *refused;
        size_t len = spprintf(&refused, 0, "Passing INI directive through FastCGI: unable to set '%s'",
                              Z_STRVAL_P(name));

        howdah_rust.log(howdah_request()->context, LOG_ERR, refused, len);
        efree(refused);
        return;
    }
    value = zend_string_init(Z_STRVAL_P(text), Z_STRLEN_P(text), 1);
    /* A client that may pass requests chooses the script, too. As in PHP-FPM, both change settings of
       the system. Some settings refuse the stage of a .htaccess file. */
    zend_alter_ini_entry_ex(entry->name, value, is_admin ? PHP_INI_SYSTEM : PHP_INI_USER,
                            PHP_INI_STAGE_ACTIVATE, true);
    if (is_admin && entry->modified) {
        entry->modifiable = 0; /* see apply() */
    }
    zend_string_release(value);
}

/* Reads settings in the syntax of php.ini. */
static void read_of_web_server(const struct howdah_string *text, bool is_admin)
{
    if (text && text->len > 0) {
        char *lines;

        spprintf(&lines, 0, "%s\n", text->data);
        zend_parse_ini_string(lines, 1, ZEND_INI_SCANNER_NORMAL, apply_of_web_server, &is_admin);
        efree(lines);
    }
}

void howdah_apply_settings(const struct howdah_request *request)
{
    engine_off = false;
    if (request->is_of_web_server) {
        read_of_web_server(HOWDAH_PARAM("PHP_VALUE"), false);
        read_of_web_server(HOWDAH_PARAM("PHP_ADMIN_VALUE"), true);
    }
    for (size_t i = 0; i < request->setting_count; i++) {
        const struct howdah_setting *setting = &request->settings[i];

        if (is_named(&setting->name, ZEND_STRL("engine"))) {
            engine_off = turns_engine_off(setting);
        } else {
            apply(setting);
        }
    }
}

void howdah_apply_settings_again(void)
{
    const struct howdah_request *request = howdah_request();

    if (request && request->setting_count > 0) {
        howdah_apply_settings(request);
    }
}
