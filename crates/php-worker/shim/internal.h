/* What the C files of the shim have in common. */
#ifndef HOWDAH_INTERNAL_H
#define HOWDAH_INTERNAL_H

#include "php.h"
#include "SAPI.h"
#include "php_globals.h"
#include "php_ini.h"
#include "php_main.h"
#include "php_variables.h"

#include "howdah.h"

#if PHP_VERSION_ID < 80200
#error "howdah-php needs PHP 8.2 or later"
#endif
#ifdef ZTS
#error "howdah-php needs a PHP without thread safety (NTS)"
#endif

/* The Rust side; set once by howdah_php_start. */
extern struct howdah_callbacks howdah_rust;

/* Loads PHP with the modules of this SAPI: its functions and settings. */
zend_result howdah_start_modules(sapi_module_struct *module);

/* cgi.fix_pathinfo */
extern bool howdah_fix_pathinfo;

/* The request in hand, or null. */
static inline const struct howdah_request *howdah_request(void)
{
    return SG(server_context);
}

/* The value of a parameter of the request in hand, or null. */
const struct howdah_string *howdah_param(const char *name, size_t len);
#define HOWDAH_PARAM(name) howdah_param(name, sizeof(name) - 1)

/* As above for C strings: null if there is no such parameter. */
static inline char *howdah_value(const struct howdah_string *value)
{
    return value ? (char *)value->data : NULL;
}

/* Puts the parameters of the request into an array such as $_SERVER. */
void howdah_register_variables(zval *array);
/* Makes PHP see the parameters as environment, as it does under FastCGI. */
void howdah_hook_environment(void);

/* While modules start, before OPcache looks: scripts are not passed on to other programs. */
void howdah_hook_open(void);

/* Activates settings of php.ini sections and .user.ini files for the script in hand. */
void howdah_user_ini_startup(void);
int howdah_user_ini_activate(void);

/* What OPcache may know of the script in hand, or null. */
zend_stat_t *howdah_script_stat(void);
/* In a new worker: remembers the working directory. */
void howdah_request_child(void);

/* Sends the head of the response; with a status of 1xx the head of an interim one. */
int howdah_send_head(sapi_headers_struct *headers, int interim_status);

#endif
