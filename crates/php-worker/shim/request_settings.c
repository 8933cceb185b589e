/*
 * Settings that routes and .htaccess files have for one request (php_value, php_flag), as under mod_php:
 * applied before the request starts, restored by PHP at its end. A setting that does not exist, that may
 * not be set per directory or that the administrator has set stays as it is. Routes may lock a setting:
 * PHP then refuses other changes until the end of the request, when it restores the right to change it.
 */
#include "internal.h"

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

void howdah_apply_settings(const struct howdah_request *request)
{
    engine_off = false;
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
