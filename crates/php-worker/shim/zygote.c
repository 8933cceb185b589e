/*
 * Pauses the start of PHP in a process that is forked for each application.
 *
 * php_module_startup() loads and starts all extensions, then runs the functions that extensions have
 * left in zend_post_startup_cb. OPcache's is among them: it makes the shared memory and the lock, and
 * runs the preload script. The pause is put before all of them, so that everything after it happens in a
 * new process, as the application's user and with the application's settings.
 */
#include "internal.h"

#include <time.h>

#include "zend_extensions.h"
#include "zend_ini_scanner.h"

/* Exported by PHP, but not in its headers. */
extern PHPAPI char *php_ini_opened_path, *php_ini_scanned_path, *php_ini_scanned_files;

static struct howdah_pause hooks;

/* The function that registers the extensions that are part of PHP. */
static int (*register_internal_extensions)(void);

/* The function that runs after the start of all extensions. */
static zend_result (*finish_startup)(void);

/* Sets a setting as its registration does when php.ini has it. */
static void set(const char *name, size_t len, zend_string *text)
{
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, len);
    zval value;

    ZVAL_NEW_STR(&value, zend_string_dup(text, 1));
    zend_hash_str_update(php_ini_get_configuration_hash(), name, len, &value);
    if (entry == NULL) {
        return;
    }
    if (!entry->on_modify
        || entry->on_modify(entry, Z_STR(value), entry->mh_arg1, entry->mh_arg2, entry->mh_arg3,
                            ZEND_INI_STAGE_STARTUP) == SUCCESS) {
        entry->value = zend_new_interned_string(zend_string_copy(Z_STR(value)));
    }
}

static void set_parsed(zval *name, zval *value, zval *index, int kind, void *unused)
{
    if (kind == ZEND_INI_PARSER_ENTRY && value != NULL && Z_TYPE_P(value) == IS_STRING) {
        set(Z_STRVAL_P(name), Z_STRLEN_P(name), Z_STR_P(value));
    }
}

/* Sets a setting that neither php.ini nor anything else has. */
static void set_default(const char *name, size_t len, const char *text)
{
    if (cfg_get_entry(name, len) == NULL) {
        zend_string *value = zend_string_init(text, strlen(text), 1);

        set(name, len, value);
        zend_string_release_ex(value, 1);
    }
}

static zend_result paused(void)
{
    struct howdah_settings settings = {NULL, NULL};
    char *file_cache;

    hooks.pause(hooks.context, &settings); /* Returns in a new process only. */
    howdah_loading_begins();
    tzset();
    howdah_define_apache_functions_late();
    if (settings.lock_dir) {
        set_default(ZEND_STRL("opcache.lockfile_path"), settings.lock_dir);
    }
    if (howdah_sendmail_command()) {
        set_default(ZEND_STRL("sendmail_path"), howdah_sendmail_command());
    }
    if (settings.ini
        && zend_parse_ini_string((char *)settings.ini, 1, ZEND_INI_SCANNER_NORMAL, set_parsed, NULL) != SUCCESS) {
        return FAILURE;
    }
    /* With a buffer, OPcache copies the names of all functions and classes of PHP into each
       application's shared memory and changes every pointer to them: 4 MB instead of 0.2 MB for each
       application. Names of scripts are then stored once for each file. OPcache's file cache needs a
       buffer: without one, PHP 8.2 crashes when it loads a script from a file. */
    if (cfg_get_string("opcache.file_cache", &file_cache) != SUCCESS || *file_cache == '\0') {
        set_default(ZEND_STRL("opcache.interned_strings_buffer"), "0");
    }
    howdah_read_settings();
    PG(html_errors) = 0; /* As before the pause; the settings may have changed it. */
    return finish_startup ? finish_startup() : SUCCESS;
}

/* Runs after the start of the other Zend extensions. */
static int put_pause(zend_extension *extension)
{
    finish_startup = zend_post_startup_cb;
    zend_post_startup_cb = paused;
    return FAILURE; /* Removes this extension from the list. */
}

void howdah_register_pause(void)
{
    zend_extension extension = {.name = "Howdah", .startup = put_pause};

    if (hooks.pause) {
        zend_register_extension(&extension, NULL);
    }
}

/* PHP calls this after it has read its settings, and loads the extensions that they name after it. */
static int check_settings(void)
{
    hooks.check(hooks.context);
    return register_internal_extensions();
}

int howdah_php_start_checked(const struct howdah_callbacks *callbacks, const char *ini,
                             const char *ini_file, const char *lock_dir,
                             const struct howdah_pause *pause)
{
    hooks = *pause;
    register_internal_extensions = php_register_internal_extensions_func;
    php_register_internal_extensions_func = check_settings;
    return howdah_php_start(callbacks, ini, ini_file, lock_dir);
}

const char *howdah_php_configured(const char *name, size_t len)
{
    zval *setting = cfg_get_entry(name, len);

    return setting && Z_TYPE_P(setting) == IS_STRING ? Z_STRVAL_P(setting) : NULL;
}

const char *howdah_php_extension_dir(void)
{
    return PG(extension_dir);
}

const char *howdah_php_ini_file(void)
{
    if (php_ini_opened_path) {
        return php_ini_opened_path;
    }
    return sapi_module.php_ini_path_override ? sapi_module.php_ini_path_override
                                             : PHP_CONFIG_FILE_PATH "/php.ini";
}

const char *howdah_php_ini_directories(void)
{
    return php_ini_scanned_path;
}

const char *howdah_php_ini_scanned(void)
{
    return php_ini_scanned_files;
}
