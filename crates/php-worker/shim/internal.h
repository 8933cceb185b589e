/* Declarations that the C files of the shim share. */
#ifndef HOWDAH_INTERNAL_H
#define HOWDAH_INTERNAL_H

#include "php.h"
#include "SAPI.h"
#include "php_globals.h"
#include "php_ini.h"
#include "php_main.h"
#include "php_variables.h"

#include "howdah.h"
#include "versions.h"

/* The Rust side; set once by howdah_php_start. */
extern struct howdah_callbacks howdah_rust;

/* Loads PHP with the modules of this SAPI: its functions and settings. */
zend_result howdah_start_modules(sapi_module_struct *module);

/* Called while modules start: makes the start pause, if it is to. */
void howdah_register_pause(void);

/* From now on, the end of this process is reported by the callback `exiting`. */
void howdah_loading_begins(void);

/* Reads the settings of this SAPI that are kept in variables. */
void howdah_read_settings(void);

/* cgi.fix_pathinfo */
extern bool howdah_fix_pathinfo;

/* Returns the current request, or null. */
static inline const struct howdah_request *howdah_request(void)
{
    return SG(server_context);
}

/* Returns the value of a parameter of the current request, or null. */
const struct howdah_string *howdah_param(const char *name, size_t len);
#define HOWDAH_PARAM(name) howdah_param(name, sizeof(name) - 1)

/* Returns the value as a C string; null if there is no such parameter. */
static inline char *howdah_value(const struct howdah_string *value)
{
    return value ? (char *)value->data : NULL;
}

/* Puts the parameters of the request into an array such as $_SERVER. */
void howdah_register_variables(zval *array);
/* Makes PHP read the parameters as environment variables, as under FastCGI. */
void howdah_hook_environment(void);

/* Called while modules start, before OPcache reads the hook: closes scripts on exec. */
void howdah_hook_open(void);

/* Activates settings of php.ini sections and .user.ini files for the current script. */
void howdah_user_ini_startup(void);
int howdah_user_ini_activate(void);

/* Returns the attributes of the current script for OPcache, or null. */
zend_stat_t *howdah_script_stat(void);
/* Called in a new worker: opens the working directory to return to. */
void howdah_request_child(void);

/* Sends the head of the response; with a status of 1xx, the head of an interim response. */
int howdah_send_head(sapi_headers_struct *headers, int interim_status);

#endif
