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

/* The command line that is sendmail_path unless a setting says otherwise, or null. */
const char *howdah_sendmail_command(void);

/* Called while modules start: makes the start pause, if it is to. */
void howdah_register_pause(void);

/* From now on, the end of this process is reported by the callback `exiting`. */
void howdah_loading_begins(void);

/* Reads the settings of this SAPI that are kept in variables. */
void howdah_read_settings(void);

/* cgi.fix_pathinfo */
extern bool howdah_fix_pathinfo;

/* Returns the current request, with its parameters; null while PHP is loaded. */
static inline const struct howdah_request *howdah_request(void)
{
    return SG(server_context);
}

/* Returns the current request if it has a client, otherwise null. */
static inline const struct howdah_request *howdah_client_request(void)
{
    const struct howdah_request *request = howdah_request();

    return request && request->context ? request : NULL;
}

/* Returns the value of a parameter of the current request, or null. */
const struct howdah_string *howdah_param(const char *name, size_t len);
#define HOWDAH_PARAM(name) howdah_param(name, sizeof(name) - 1)

/* Returns the value as a C string; null if the parameter does not exist. */
static inline char *howdah_value(const struct howdah_string *value)
{
    return value ? (char *)value->data : NULL;
}

/* Puts the parameters of the request into an array such as $_SERVER. */
void howdah_register_variables(zval *array);
/* Makes PHP read the parameters as environment variables, as under FastCGI. */
void howdah_hook_environment(void);

/* Writes a line if the body of the request, which has begun, is above post_max_size. */
void howdah_note_body_limit(void);
/* Writes lines about files above upload_max_filesize. Called in the prototype after modules have started. */
void howdah_hook_uploads(void);

/* Called while modules start, before OPcache reads the hook: closes scripts on exec. */
void howdah_hook_open(void);

/* Activates settings of php.ini sections and .user.ini files for the current script. */
void howdah_user_ini_startup(void);
int howdah_user_ini_activate(void);

/* ---- applications with .htaccess files ---- */

/* Defines the functions of Apache if the application is to have them. Called while modules start. */
void howdah_define_apache_functions(void);

/* The same for a start of PHP that was paused then. */
void howdah_define_apache_functions_late(void);

/* Returns a variable of the current request for getenv(), or null. */
char *howdah_environment(const char *name, size_t len);

/* Returns the value of a variable that the script has set with apache_setenv(); otherwise null. */
zend_string *howdah_changed_variable(const char *name, size_t len);

/* Calls a function for each variable that the script has set and that is not among the parameters. */
void howdah_each_new_variable(void (*each)(zend_string *name, zend_string *value, void *context),
                              void *context);

/* Sends the router the values that the script has set, as lines of a head. */
void howdah_send_variables(void *context);

/* Called at the end of each request. */
int howdah_forget_variables(void);

/* Applies the settings of the current request. Must run below zend_try. */
void howdah_apply_settings(const struct howdah_request *request);

/* The same after .user.ini files, whose settings do not replace them. */
void howdah_apply_settings_again(void);

/* True if the settings of the current request keep PHP from running its script. */
bool howdah_is_engine_off(void);

/* Returns the attributes of the current script for OPcache, or null. */
zend_stat_t *howdah_script_stat(void);

/* ---- the working directory, see directory.c ---- */

/* Called in a new worker: opens the working directory to return to. */
void howdah_directory_child(void);

/* Enters the directory of the script `path`, an absolute path, with these attributes. `is_link`: it is a
   symbolic link. */
void howdah_enter_directory_of(const char *path, const zend_stat_t *script, bool is_link);

/* Called after the script: returns to the application's directory if the rest of the request needs it. */
void howdah_leave_directory(void);

/* Returns to the application's directory. */
void howdah_go_home(void);

/* Opens the working directory; -1 if that fails. */
int howdah_remember_directory(void);

/* Returns to a directory if this process may have left it. Returns false if that fails. */
bool howdah_restore_directory(int directory);

/* ---- the end of scripts, see request.c ---- */

/* Returns true if an error has ended the script. exit() in a function that runs later resets that. */
bool howdah_is_cut(void);

/* ---- time limits, see time_limit.c ---- */

/* Called before PHP is loaded. */
void howdah_prepare_time_limits(void);

/* Called in a new worker. */
void howdah_time_limit_child(void);

/* Sets the processor time of this process, in microseconds, at which the time limit of the next script
   begins; 0: when the script begins. */
void howdah_time_limit_begins(int64_t processor_time);

/* Makes the time limit begin anew while a script runs: at a processor time as above, 0: now. */
void howdah_restart_time_limit(int64_t processor_time);

/* Fills SG(request_info). Must run below zend_try: decoding credentials allocates. */
void howdah_fill_request_info(const struct howdah_request *request);

/* Clears SG(request_info) after sapi_deactivate(), which leaves pointers to freed memory. */
void howdah_free_request_info(void);

/* Makes this process report its own crash. */
void howdah_report_crashes(void);

/* Makes PHP use the directory for uploaded files of howdah_php_set_upload_directory(). */
void howdah_apply_upload_directory(void);

/* Runs the script of a request, or refuses it. */
void howdah_run_script(const struct howdah_request *request);

/* True in a process that runs a worker script. */
bool howdah_is_resident(void);

/* True while a worker script handles a request. */
bool howdah_in_resident_request(void);

/* True while a worker script handles a request whose response is dropped. */
bool howdah_discards_output(void);

/* Sends PHP's messages to the log alone: no client is there. */
void howdah_messages_to_log(void);

/* Sends PHP's messages to where the settings say. */
void howdah_messages_to_client(void);

/* Keeps PHP's state after the boot of a worker script. */
void howdah_remember_state(void);

/* Restores that state after a request. Returns why the process must end if it cannot, or 0. */
enum howdah_end howdah_restore_state(void);

/* Called in a new worker: from now on, changes of signals and limits of the process are noted. */
void howdah_watch_process(void);

/* Makes the present signals and limits those to return to. */
void howdah_forget_process_changes(void);

/* Replaces a function of PHP, whose handler becomes `*original`, unless that has happened already. */
void howdah_watch(const char *name, zif_handler *original, zif_handler replacement);

/* The same as the above for state of extensions, see module_state.c. */
void howdah_watch_modules(void);
void howdah_forget_module_changes(void);
void howdah_remember_modules(void);
enum howdah_end howdah_restore_modules(void);

/* Makes all generators of random numbers that PHP seeds itself seed themselves again. */
void howdah_forget_random_state(void);

/* Transactions of databases, see transaction_state.c. */
void howdah_watch_transactions(void);
/* Keeps those that the boot has begun. */
void howdah_forget_transactions(void);
/* Rolls back those that a request has left open. */
void howdah_end_transactions(void);

/* The same for tick functions, see resident_state.c. */
void howdah_watch_tick_functions(void);

/* The same for streams, see stream_state.c. */
void howdah_watch_streams(void);
void howdah_remember_streams(void);
void howdah_restore_streams(void);
/* Ends the streams of php://input that have this body, which will be freed. */
void howdah_end_input_streams(const php_stream *body);

/* Reads the state of OPcache, at most once in a second, between two requests. */
void howdah_read_opcache(struct howdah_opcache *status);

/* Restores signals and limits after a request. Returns why the process must end if it cannot, or 0. */
enum howdah_end howdah_restore_process(void);

/* Calls a function of PHP without arguments. */
void howdah_call(const char *name, zval *result);

/* Reports an exception that a callback has thrown while PHP ends something. Returns why the script must
   not go on, or 0. PHP itself reports it where no function runs; here frankenphp_handle_request() does. */
enum howdah_end howdah_settle_exception(void);

/* Sessions of requests to a worker script, see resident_session.c. This is called once, before the others. */
void howdah_find_sessions(void);
void howdah_auto_start_session(void);
/* Writes the session if functions of the script store it. Returns why the script must not continue, or 0. */
enum howdah_end howdah_write_user_session(void);
/* Writes and closes the session. Functions that store sessions stay those that the script has set. */
enum howdah_end howdah_end_session(void);

/* Functions of resident applications, see resident.c. */
ZEND_FUNCTION(frankenphp_handle_request);

/* Sends the head of the response; with a status of 1xx, the head of an interim response. */
int howdah_send_head(sapi_headers_struct *headers, int interim_status);

#endif
