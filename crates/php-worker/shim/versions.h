/*
 * The differences between the versions of PHP that the shim is compiled for: 8.1 to 8.5, and 8.6 as
 * far as it exists. No other file of the shim asks for the version. docs/php.md says which versions
 * are tested.
 */
#ifndef HOWDAH_VERSIONS_H
#define HOWDAH_VERSIONS_H

#include "php.h"
#include "SAPI.h"
#include "php_main.h"

/* 8.0 opens scripts by other functions (zend_stream_open_function takes a name there). */
#if PHP_VERSION_ID < 80100
#error "howdah-php needs PHP 8.1 or later"
#endif
#ifdef ZTS
#error "howdah-php needs a PHP without thread safety (NTS)"
#endif

/* 8.2 has moved random numbers to an extension of their own. In 8.1 no code can reach the state of the
 * combined generator: if a preload script calls lcg_value(), each worker continues from the same value,
 * as under PHP-FPM. */
#if PHP_VERSION_ID >= 80200
#include "ext/random/php_random.h"
#else
#include "ext/standard/basic_functions.h"
#endif

static inline void howdah_forget_random_seeds(void)
{
#if PHP_VERSION_ID >= 80200
    RANDOM_G(combined_lcg_seeded) = false;
    RANDOM_G(mt19937_seeded) = false;
#else
    BG(mt_rand_is_seeded) = 0;
#endif
}

/* php_module_startup() of 8.1 takes any number of modules, that of 8.2 one. */
static inline zend_result howdah_module_startup(sapi_module_struct *sapi, zend_module_entry *module)
{
#if PHP_VERSION_ID >= 80200
    return php_module_startup(sapi, module);
#else
    return php_module_startup(sapi, module, 1);
#endif
}

/* PHP-FPM reads .user.ini files in this function of the SAPI. 8.5 has added one that PHP calls before
 * it reads the body of a request, so that they can set post_max_size. */
#if PHP_VERSION_ID >= 80500
#define HOWDAH_READS_USER_INI pre_request_init
#else
#define HOWDAH_READS_USER_INI activate
#endif

/* 8.1 cannot reset the peak of its memory: for a worker script it is the one since the boot. */
static inline void howdah_reset_peak_memory(void)
{
#if PHP_VERSION_ID >= 80200
    zend_memory_reset_peak_usage();
#endif
}

/* 8.2 has made these variables atomic. */
static inline void howdah_store_timed_out(bool timed_out)
{
#if PHP_VERSION_ID >= 80200
    zend_atomic_bool_store_ex(&EG(timed_out), timed_out);
#else
    EG(timed_out) = timed_out;
#endif
}

/* 8.6 has changed the type of this setting to zend_string. */
static inline bool howdah_has_output_handler(void)
{
#if PHP_VERSION_ID >= 80600
    return PG(output_handler) && ZSTR_LEN(PG(output_handler)) > 0;
#else
    return PG(output_handler) && PG(output_handler)[0];
#endif
}

static inline void howdah_output_handler(zval *name)
{
#if PHP_VERSION_ID >= 80600
    ZVAL_STR(name, zend_string_dup(PG(output_handler), false));
#else
    ZVAL_STRING(name, PG(output_handler));
#endif
}

/* 8.5 has removed the setting disable_classes and its function. The log then warns that no extension has
 * the setting. */
static inline void howdah_disable_class(const char *name, size_t len)
{
#if PHP_VERSION_ID >= 80500
    (void)name, (void)len;
#else
    zend_disable_class(name, len);
#endif
}

#endif
