/*
 * Changes that a request to a worker script makes in extensions with functions that PHP undoes only at the
 * end of a request, or not at all: encodings, errors of XML, text domains, user and group of the process. The
 * functions are replaced by ones that note their call, so that a request which calls none of them costs
 * next to nothing.
 */
#include "internal.h"

#include <libintl.h>

#include "ext/standard/basic_functions.h"
#include "ext/standard/php_filestat.h"

/* ---- values that a function sets and, without an argument, returns ---- */

#define VALUES(each)                 \
    each(mb_internal_encoding)       \
    each(mb_http_output)             \
    each(mb_substitute_character)    \
    each(mb_language)                \
    each(mb_detect_order)            \
    each(mb_regex_encoding)          \
    each(mb_regex_set_options)       \
    each(libxml_use_internal_errors) \
    each(spl_autoload_extensions)

#define NUMBER(name) VALUE_##name,
#define NAME(name) #name,

enum { VALUES(NUMBER) VALUE_COUNT };

#define FIRST_OF_MBSTRING VALUE_mb_internal_encoding
#define LAST_OF_MBSTRING VALUE_mb_regex_set_options

static const char *const names[] = {VALUES(NAME)};

/* The values after the boot, and those whose functions the request has called. A value is not taken when it
   is changed first: a setting such as default_charset may have changed it before. */
static zval booted_values[VALUE_COUNT];
static bool may_have_changed[VALUE_COUNT];

static void note_value(int number, uint32_t arguments)
{
    may_have_changed[number] |= arguments > 0;
}

static void remember_values(void)
{
    for (int i = 0; i < VALUE_COUNT; i++) {
        zval_ptr_dtor(&booted_values[i]);
        howdah_call(names[i], &booted_values[i]);
    }
}

static void forget_values(void)
{
    memset(may_have_changed, 0, sizeof(may_have_changed));
}

static void call_with(const char *name, zval *argument)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
    zval result;

    if (function) {
        ZVAL_UNDEF(&result);
        zend_call_known_function(function, NULL, NULL, &result, 1, argument, NULL);
        zval_ptr_dtor(&result);
    }
}

static void restore_values(void)
{
    for (int i = 0; i < VALUE_COUNT; i++) {
        zval now;

        if (!may_have_changed[i]) {
            continue;
        }
        howdah_call(names[i], &now);
        if (!zend_is_identical(&now, &booted_values[i])) {
            call_with(names[i], &booted_values[i]);
        }
        zval_ptr_dtor(&now);
    }
    forget_values();
}

#define WATCHED_VALUE(name)                                \
    static zif_handler original_##name;                         \
    static ZEND_FUNCTION(howdah_watched_##name)            \
    {                                                      \
        note_value(VALUE_##name, ZEND_NUM_ARGS());         \
        original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
    }

VALUES(WATCHED_VALUE)

/* ---- state that cannot be set back, or not always ---- */

static struct {
    bool xml, entity_loader, identity, codeset, search, assert_callback, log;
    /* What use_soap_error_handler() has set before its first call. */
    zval soap_handler;
    /* The text domain, and the directories of text domains, before the first change. */
    char *domain;
    HashTable *directories;
} changed;

static bool boot_has_entity_loader, boot_has_log;

static void note_xml(zend_execute_data *execute_data)
{
    changed.xml = true;
}

static void note_entity_loader(zend_execute_data *execute_data)
{
    changed.entity_loader = true;
}

/* The text to search, and the matches in it; the encoding that mb_parse_str() has found. */
static void note_search(zend_execute_data *execute_data)
{
    changed.search = true;
}

static const char *text_argument(zend_execute_data *execute_data)
{
    zval *argument = ZEND_CALL_ARG(execute_data, 1);

    return ZEND_NUM_ARGS() > 0 && Z_TYPE_P(argument) == IS_STRING ? Z_STRVAL_P(argument) : NULL;
}

/* assert_options(ASSERT_CALLBACK, ...) sets a function beside the setting. */
static void note_assertion(zend_execute_data *execute_data)
{
    changed.assert_callback |= ZEND_NUM_ARGS() > 1;
}

static void note_log(zend_execute_data *execute_data)
{
    changed.log = true;
}

static void note_domain(zend_execute_data *execute_data)
{
    const char *current = textdomain(NULL);

    if (changed.domain == NULL && current) {
        changed.domain = strdup(current);
    }
}

static void free_text(zval *text)
{
    free(Z_PTR_P(text));
}

static void note_directory(zend_execute_data *execute_data)
{
    const char *domain = text_argument(execute_data);
    const char *current = domain && *domain ? bindtextdomain(domain, NULL) : NULL;
    char *copy;

    if (current == NULL) {
        return;
    }
    if (changed.directories == NULL) {
        changed.directories = pemalloc(sizeof(HashTable), 1);
        zend_hash_init(changed.directories, 1, NULL, free_text, 1);
    }
    copy = strdup(current);
    if (copy && !zend_hash_str_add_ptr(changed.directories, domain, strlen(domain), copy)) {
        free(copy);
    }
}

static void note_nothing(zend_execute_data *execute_data)
{
}

#define WATCHED(name, note_before, after)                  \
    static zif_handler original_##name;                         \
    static ZEND_FUNCTION(howdah_watched_##name)            \
    {                                                      \
        note_before(execute_data);                         \
        original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
        after;                                             \
    }

/* It returns the former value, and sets true without an argument. */
static void note_soap_handler(const zval *former)
{
    if (Z_ISUNDEF(changed.soap_handler) && (Z_TYPE_P(former) == IS_FALSE || Z_TYPE_P(former) == IS_TRUE)) {
        ZVAL_COPY_VALUE(&changed.soap_handler, former);
    }
}

#define NOTE_IDENTITY changed.identity |= Z_TYPE_P(return_value) == IS_TRUE

WATCHED(libxml_set_streams_context, note_xml, )
WATCHED(libxml_disable_entity_loader, note_xml, )
WATCHED(libxml_set_external_entity_loader, note_entity_loader, )
WATCHED(mb_ereg_search_init, note_search, )
WATCHED(mb_parse_str, note_search, )
WATCHED(assert_options, note_assertion, )
WATCHED(textdomain, note_domain, )
WATCHED(bindtextdomain, note_directory, )
WATCHED(openlog, note_log, )
WATCHED(use_soap_error_handler, note_nothing, note_soap_handler(return_value))
WATCHED(posix_setuid, note_nothing, NOTE_IDENTITY)
WATCHED(posix_seteuid, note_nothing, NOTE_IDENTITY)
WATCHED(posix_setgid, note_nothing, NOTE_IDENTITY)
WATCHED(posix_setegid, note_nothing, NOTE_IDENTITY)
WATCHED(posix_initgroups, note_nothing, NOTE_IDENTITY)
WATCHED(posix_setpgid, note_nothing, NOTE_IDENTITY)
WATCHED(posix_setsid, note_nothing, changed.identity |= Z_TYPE_P(return_value) == IS_LONG && Z_LVAL_P(return_value) > 0)
WATCHED(pcntl_unshare, note_nothing, NOTE_IDENTITY)
WATCHED(pcntl_setns, note_nothing, NOTE_IDENTITY)
WATCHED(chroot, note_nothing, NOTE_IDENTITY)

static bool is_same(const char *one, const char *two)
{
    return one == two || (one && two && strcmp(one, two) == 0);
}

/* The encoding of a text domain cannot be unset. */
static zif_handler original_bind_textdomain_codeset;
static ZEND_FUNCTION(howdah_watched_bind_textdomain_codeset)
{
    const char *domain = text_argument(execute_data);
    const char *current = domain && *domain ? bind_textdomain_codeset(domain, NULL) : NULL;
    char *old = current ? strdup(current) : NULL;

    original_bind_textdomain_codeset(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (domain && *domain && !is_same(old, bind_textdomain_codeset(domain, NULL))) {
        changed.codeset = true;
    }
    free(old);
}

#define WATCH(name) howdah_watch(#name, &original_##name, ZEND_FN(howdah_watched_##name));
void howdah_watch_modules(void)
{
    VALUES(WATCH)
    howdah_watch_transactions();
    WATCH(assert_options)
    WATCH(libxml_set_streams_context)
    WATCH(libxml_disable_entity_loader)
    WATCH(libxml_set_external_entity_loader)
    WATCH(mb_ereg_search_init)
    WATCH(mb_parse_str)
    WATCH(textdomain)
    WATCH(bindtextdomain)
    WATCH(bind_textdomain_codeset)
    WATCH(openlog)
    WATCH(use_soap_error_handler)
    WATCH(posix_setuid)
    WATCH(posix_seteuid)
    WATCH(posix_setgid)
    WATCH(posix_setegid)
    WATCH(posix_initgroups)
    WATCH(posix_setpgid)
    WATCH(posix_setsid)
    WATCH(pcntl_unshare)
    WATCH(pcntl_setns)
    WATCH(chroot)
}

void howdah_forget_module_changes(void)
{
    forget_values();
    boot_has_entity_loader |= changed.entity_loader;
    boot_has_log |= changed.log;
    howdah_forget_transactions();
    free(changed.domain);
    if (changed.directories) {
        zend_hash_destroy(changed.directories);
        pefree(changed.directories, 1);
    }
    memset(&changed, 0, sizeof(changed));
}

/* ---- after a request ---- */

static void restore_text_domains(void)
{
    zend_string *domain;
    const char *directory;

    if (changed.domain) {
        textdomain(changed.domain);
    }
    if (changed.directories) {
        ZEND_HASH_FOREACH_STR_KEY_PTR(changed.directories, domain, directory) {
            if (!is_same(bindtextdomain(ZSTR_VAL(domain), NULL), directory)) {
                bindtextdomain(ZSTR_VAL(domain), directory);
            }
        } ZEND_HASH_FOREACH_END();
    }
}

/* ---- dates and mysqli ---- */

/* An object by which the report mode of mysqli is read, and this mode after the boot. */
static zval mysqli_driver;
static zend_long booted_report_mode;

static zend_long mysqli_report_mode(void)
{
    zval copy, *value = zend_read_property(Z_OBJCE(mysqli_driver), Z_OBJ(mysqli_driver),
                                           ZEND_STRL("report_mode"), true, &copy);

    return zval_get_long(value);
}

void howdah_remember_modules(void)
{
    zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("mysqli_driver"));

    remember_values();
    if (class && Z_ISUNDEF(mysqli_driver) && object_init_ex(&mysqli_driver, class) != SUCCESS) {
        ZVAL_UNDEF(&mysqli_driver);
    }
    if (!Z_ISUNDEF(mysqli_driver)) {
        booted_report_mode = mysqli_report_mode();
    }
}

static void call_extension_again(const char *name)
{
    zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, name, strlen(name));

    if (module && module->request_shutdown_func && module->request_startup_func) {
        module->request_shutdown_func(module->type, module->module_number);
        module->request_startup_func(module->type, module->module_number);
    }
}

/* mysqli_connect_error(), which names hosts and users, and mysqli_report(). */
static void restore_mysqli(void)
{
    zval error, mode;

    if (Z_ISUNDEF(mysqli_driver)) {
        return;
    }
    howdah_call("mysqli_connect_errno", &error);
    if (zval_get_long(&error) != 0) {
        call_extension_again("mysqli");
    }
    if (mysqli_report_mode() != booted_report_mode) {
        ZVAL_LONG(&mode, booted_report_mode);
        call_with("mysqli_report", &mode);
    }
}

static bool has_some(HashTable *errors, const char *count)
{
    zval *number = zend_hash_str_find(errors, count, strlen(count));

    return number && zval_get_long(number) > 0;
}

/* Starts mbstring anew: its values are those of the settings then, and follow these again. Settings of
   the boot are set again. */
static void restore_mbstring(void)
{
    bool has_changed = changed.search;

    for (int i = FIRST_OF_MBSTRING; i <= LAST_OF_MBSTRING; i++) {
        has_changed |= may_have_changed[i];
    }
    if (has_changed) {
        call_extension_again("mbstring");
        for (int i = FIRST_OF_MBSTRING; i <= LAST_OF_MBSTRING; i++) {
            may_have_changed[i] = true;
        }
    }
}

/* A date without errors takes the place of date_get_last_errors(), which may quote a client. */
static void forget_date_errors(void)
{
    zval errors, date;

    howdah_call("date_get_last_errors", &errors);
    if (Z_TYPE(errors) == IS_ARRAY
        && (has_some(Z_ARRVAL(errors), "error_count") || has_some(Z_ARRVAL(errors), "warning_count"))) {
        howdah_call("date_create", &date);
        zval_ptr_dtor(&date);
    }
    zval_ptr_dtor(&errors);
}

/* preg_last_error(). Each match forgets the error of the one before. */
static void forget_match_error(void)
{
    zend_function *match = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("preg_match"));
    zval error, result, arguments[2];

    howdah_call("preg_last_error", &error);
    if (match && zval_get_long(&error) != 0) {
        ZVAL_STRING(&arguments[0], "//");
        ZVAL_EMPTY_STRING(&arguments[1]);
        ZVAL_UNDEF(&result);
        zend_call_known_function(match, NULL, NULL, &result, 2, arguments, NULL);
        zval_ptr_dtor(&arguments[0]);
    }
}

void howdah_forget_random_state(void)
{
    zend_module_entry *gmp = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("gmp"));

    howdah_forget_random_seeds();
    /* Forgets only the generator of gmp_random_bits() and its like. */
    if (gmp && gmp->request_shutdown_func) {
        gmp->request_shutdown_func(gmp->type, gmp->module_number);
    }
}

/* What functions remember from one call to the next. */
static void forget_calls(void)
{
    zend_module_entry *json = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("json"));
    zend_module_entry *intl = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("intl"));
    zval cleared;

    php_clear_stat_cache(0, NULL, 0);
    if (BG(strtok_string)) {
        zend_string_release(BG(strtok_string));
        BG(strtok_string) = NULL;
        BG(strtok_last) = NULL;
    }
    howdah_call("libxml_clear_errors", &cleared);
    /* Forgets only json_last_error(). */
    if (json && json->request_startup_func) {
        json->request_startup_func(json->type, json->module_number);
    }
    /* intl_get_error_code(), and an iterator that is made again when it is needed. */
    if (intl && intl->request_shutdown_func) {
        intl->request_shutdown_func(intl->type, intl->module_number);
    }
    forget_match_error();
    /* If the boot has chosen a name for the system log, requests may choose others: the script expects to
       find the log open. */
    if (changed.log && !boot_has_log) {
        howdah_call("closelog", &cleared);
        changed.log = false;
    }
    if (!Z_ISUNDEF(changed.soap_handler)) {
        call_with("use_soap_error_handler", &changed.soap_handler);
    }
}

enum howdah_end howdah_restore_modules(void)
{
    enum howdah_end end = HOWDAH_END_NONE;

    howdah_end_transactions();
    restore_mbstring();
    restore_values();
    restore_text_domains();
    forget_calls();
    forget_date_errors();
    restore_mysqli();
    if (changed.entity_loader && !boot_has_entity_loader) {
        zval none;

        ZVAL_NULL(&none);
        call_with("libxml_set_external_entity_loader", &none);
        changed.entity_loader = false;
    }
    if (changed.assert_callback) {
        end = HOWDAH_END_SETTINGS;
    }
    if (changed.xml || changed.entity_loader) {
        end = HOWDAH_END_XML;
    }
    if (changed.codeset) {
        end = HOWDAH_END_TEXT_DOMAIN;
    }
    if (changed.identity) {
        end = HOWDAH_END_IDENTITY;
    }
    changed.entity_loader = false;
    howdah_forget_module_changes();
    return end;
}
