/*
 * The boundary between the Rust side and the C side of howdah-php. src/ffi.rs and src/ffi/ declare the
 * same in Rust; both sides assert sizes and offsets.
 *
 * Rules of the boundary:
 *
 * - Only C calls Zend, and always below a zend_try: a bailout is a longjmp, which must not cross
 *   a Rust frame. A callback therefore never calls back into PHP; it copies bytes and returns a
 *   status, and C decides whether to bail out. The exception is `serve`: it calls functions of C that
 *   have a zend_try of their own and never bail out of it.
 * - Strings have a length and end in a NUL that the length does not count. They belong to the
 *   caller; the callee copies a string that it keeps.
 */
#ifndef HOWDAH_H
#define HOWDAH_H

#include <stddef.h>
#include <stdint.h>

struct howdah_string {
    const char *data;
    size_t len;
};

/* One CGI parameter. */
struct howdah_param {
    struct howdah_string name;
    struct howdah_string value;
};

/* A setting of PHP for one request. Neither string ends in a NUL, and neither contains one. */
struct howdah_setting {
    struct howdah_string name;
    struct howdah_string value;
    /* 1 if scripts, and files of settings of their directories, cannot change it. */
    uint64_t is_locked;
};

/* Which name a script must have. */
enum howdah_name_rule {
    /* It must end in ".php". */
    HOWDAH_NAME_PHP = 0,
    /* Any: the name has been checked. */
    HOWDAH_NAME_ANY = 1,
    /* The file is not run. */
    HOWDAH_NAME_NONE = 2,
};

/* A request. All pointers are valid until the function that gets it returns. */
struct howdah_request {
    /* Passed to every callback; null if there is no client. */
    void *context;
    const struct howdah_param *params;
    size_t param_count;
    /* Bytes that the callback `read` will deliver. */
    int64_t content_length;
    /* Settings that routes and .htaccess files have for this request; ignored by a worker script. */
    const struct howdah_setting *settings;
    size_t setting_count;
    /* The field Authorization, empty if the client has sent none. Without data, it is among the
       parameters, if anywhere. */
    struct howdah_string authorization;
    /* enum howdah_name_rule */
    uint64_t name_rule;
    /* The status of the response unless the script sets another. */
    uint64_t status;
    /* The processor time of this process, in microseconds, at which the request began; 0 if that is not
       known. */
    int64_t cpu_us;
    /* 1 if the parameters are those of a web server that speaks FastCGI. */
    uint64_t is_of_web_server;
    /* In that case, the path of the script and its path in the URL; without data if there is none. */
    struct howdah_string script;
    struct howdah_string uri;
};

/* Why a worker script's process must not handle another request. */
enum howdah_end {
    HOWDAH_END_NONE = 0,
    /* The script has called exit(). */
    HOWDAH_END_EXIT = 1,
    /* An error that PHP cannot go on after, such as memory_limit. */
    HOWDAH_END_FATAL = 2,
    /* max_execution_time */
    HOWDAH_END_TIMEOUT = 3,
    /* The client has closed its connection, which ends a script unless it ignores that. */
    HOWDAH_END_DISCONNECTED = 4,
    /* State that the request has changed and that could not be restored. */
    HOWDAH_END_LOCALE = 5,
    HOWDAH_END_TIME_ZONE = 6,
    HOWDAH_END_ENVIRONMENT = 7,
    HOWDAH_END_DIRECTORY = 8,
    /* opcache_reset(): the application starts again. */
    HOWDAH_END_RESTART = 9,
    /* More state that could not be restored. */
    HOWDAH_END_SIGNALS = 10,
    HOWDAH_END_LIMITS = 11,
    HOWDAH_END_IDENTITY = 12,
    HOWDAH_END_XML = 13,
    HOWDAH_END_TEXT_DOMAIN = 14,
    HOWDAH_END_SETTINGS = 15,
};

/* The state of OPcache. The figures are those of opcache_get_status(). */
struct howdah_opcache {
    /* 0: it was not read after this request. */
    uint64_t is_known;
    uint64_t is_enabled;
    /* Memory in bytes. */
    uint64_t used, free, wasted;
    uint64_t scripts, hits, misses, restarts;
};

/* The result of a request. */
struct howdah_outcome {
    /* memory_get_peak_usage(true) */
    uint64_t peak_memory;
    /* Not 0: this process must not call PHP again. */
    uint64_t broken;
    /* enum howdah_end; 0 without a worker script. */
    uint64_t end;
    /* Not 0: an error has ended the script, so its output is not the whole response. */
    uint64_t cut;
    struct howdah_opcache opcache;
};

/* The result of a callback. */
enum howdah_status {
    HOWDAH_OK = 0,
    /* The client has closed its connection: further output is dropped. */
    HOWDAH_DISCONNECTED = 1,
};

/* A message that a script sends. */
struct howdah_mail {
    /* The command line of sendmail, without its name. */
    const char *arguments;
    size_t arguments_len;
    /* The script. */
    const char *script;
    size_t script_len;
    uint32_t line;
    /* Descriptor of the file with the message. */
    int message;
};

/* A call of a running script. No string ends in a NUL. */
struct howdah_call {
    /* Empty for a function without a class. */
    struct howdah_string class_name;
    struct howdah_string name;
    /* Path of the script; empty for a function of PHP. */
    struct howdah_string file;
    /* The line that runs, and the first line of the function; 0 if there is none. */
    uint32_t line, start;
};

/*
 * The Rust side. `context` is that of the request; only `log` and `mail` may be called without a
 * request, with a null pointer; `exiting` and `takes_mail` have none.
 */
struct howdah_callbacks {
    int (*write)(void *context, const char *data, size_t len);
    int (*flush)(void *context);
    /* The head of a response: begin, any number of fields ("Name: value"), end. */
    void (*head_begin)(void *context, uint32_t status, const char *reason, size_t len);
    void (*head_field)(void *context, const char *line, size_t len);
    int (*head_end)(void *context, int informational);
    /* Completes the response while the script continues. Returns 0 if it was complete before. */
    int (*finish)(void *context);
    /* Reads the request's body. Returns fewer bytes than requested only at its end. */
    size_t (*read)(void *context, char *buffer, size_t len);
    void (*log)(void *context, int severity, const char *message, size_t len);
    /* Logs that the script at this path could not be read, and which permission is missing. */
    void (*denied)(void *context, const char *path, size_t len);
    /* Purges cached responses: all of the host (flag 1) or those with one of the tags, which end in a line
       feed each; softly (flag 2). */
    void (*purge)(void *context, int flags, const char *tags, size_t len);
    /* The status of the application, as JSON; valid until the next call. Empty if the router does
       not answer. */
    const char *(*status)(void *context, size_t *len);
    /* Called when PHP ends the process while it is being loaded. */
    void (*exiting)(void);
    /* Waits for a request and calls howdah_php_handle_resident for it. Returns 0 if the worker script
       must end. Gets the context of howdah_php_run_worker_script. */
    int (*serve)(void *context);
    /* Returns 1 if `mail` can replace a command with these arguments. */
    int (*takes_mail)(const char *arguments, size_t len);
    /* Sends a message as sendmail does, and returns its exit status. */
    int (*mail)(void *context, const struct howdah_mail *mail);
    /* Takes a sample: the calls of the script, the innermost first, which stand for this number of ticks.
       `is_last`: no sample follows in this request. */
    void (*sample)(void *context, const struct howdah_call *calls, size_t count, uint32_t ticks,
                   int is_last);
    /* The value of a variable that the files of settings name and the environment does not have, or null. */
    const char *(*start_variable)(const char *name, size_t len);
};

/*
 * Loads PHP. `ini` is text in the syntax of php.ini that overrides the file; `ini_file` is the
 * path of a file to read in place of the default one, or null; `lock_dir` is the default of
 * opcache.lockfile_path, or null for PHP's own. 0 on success.
 */
int howdah_php_start(const struct howdah_callbacks *callbacks, const char *ini,
                     const char *ini_file, const char *lock_dir);

/* Settings of an application. The strings live as long as the process. */
struct howdah_settings {
    /* As the parameters of howdah_php_start. */
    const char *ini;
    const char *lock_dir;
};

/* The functions that a start calls. */
struct howdah_pause {
    void *context;
    /* Called once the settings have been read, before the first extension is loaded. */
    void (*check)(void *context);
    /* Called before OPcache and preloading start. Forks, and returns in each new process with the
       settings that its start goes on with. Null for a start that does not pause. */
    void (*pause)(void *context, struct howdah_settings *settings);
};

/* As howdah_php_start, with these calls. If it pauses, it returns in a new process only. */
int howdah_php_start_checked(const struct howdah_callbacks *callbacks, const char *ini,
                             const char *ini_file, const char *lock_dir,
                             const struct howdah_pause *pause);

/* The value of a setting in the files of settings, or null. Valid while a start checks or pauses. */
const char *howdah_php_configured(const char *name, size_t len);

/* The directory of extensions. Valid while a start checks or pauses, as those below. */
const char *howdah_php_extension_dir(void);

/* The path of php.ini, or where it is missing; the directories of further files, separated by colons, or
 * null; the paths of these files, separated by commas, or null. */
const char *howdah_php_ini_file(void);
const char *howdah_php_ini_directories(void);
const char *howdah_php_ini_scanned(void);

/* Makes the start of PHP define the functions of Apache. Must be called before it, or before `pause`
 * returns. */
void howdah_php_define_apache_functions(void);

/* Makes howdah_php_start() run no preload script; howdah_php_preload() returns its name. */
void howdah_php_skip_preload(void);
/* Prints PHP's information or its modules to standard output. Returns 0, or -1 if that fails. No
   request may come afterwards. */
int howdah_php_information(bool is_of_modules);

/* The value of opcache.preload, or null. */
const char *howdah_php_preload(void);

/* Keeps scripts and .user.ini files from changing a setting. Returns 0, or -1 if no extension has it. */
int howdah_php_lock(const char *name, size_t len);

/* Disables functions permanently, in addition to those that php.ini disables. */
void howdah_php_disable_functions(const char *list);

/* Disables classes permanently, in addition to those that php.ini disables; no effect from PHP 8.5
 * on. */
void howdah_php_disable_classes(const char *list);

/* PHP's full version, from the loaded library. Valid after howdah_php_start. */
const char *howdah_php_version(void);

/* memory_limit in bytes, -1 without a limit. Valid after howdah_php_start. */
int64_t howdah_php_memory_limit(void);

/* Sets the program that scripts send mail with unless a setting names another; it is copied. Call
 * once, before howdah_php_start or while its start pauses. */
void howdah_php_set_sendmail(const char *program);

/* The value of a setting, or null if it is not set. Valid after howdah_php_start, until it is changed. */
const char *howdah_php_setting(const char *name, size_t len);

/* Name and version of OPcache, or null if it is not active. Valid after howdah_php_start. */
const char *howdah_php_opcache(void);

/* PHP's directory for uploaded files. Valid until the next call. */
const char *howdah_php_upload_directory(void);

/* Sets PHP's directory for uploaded files, for all further requests; ini_get() does not show it. */
void howdah_php_set_upload_directory(const char *directory);

/*
 * The layout of the running script's stack in the memory of a worker, from which the prototype reads
 * it. The address is the same in all processes that the prototype has forked.
 */
struct howdah_layout {
    /* Address of the pointer to the innermost call. */
    uint64_t current;
    /* Offsets in a call. */
    uint64_t call_opline, call_function, call_type, call_arguments, call_previous, call_slots;
    /* Offsets in a function; the last four only in a function of a script. */
    uint64_t function_type, function_name, function_class, function_parameters;
    uint64_t function_file, function_variables, function_temporaries;
    /* Offsets in an instruction, a string, a class, a value, an object, a reference. */
    uint64_t opline_line, string_length, string_text, class_name;
    uint64_t value_type, value_size, object_class, reference_value;
    /* The flag of the outermost call. */
    uint64_t call_is_top;
};

/* Fills in the layout of the loaded PHP. */
void howdah_php_layout(struct howdah_layout *layout);

/* Gives a forked process random seeds and signal handling of its own. */
void howdah_php_child(void);

/* Returns the memory to the kernel that earlier requests have used and that PHP keeps for the next
 * ones. Must be called between two requests. */
void howdah_php_release_memory(void);

/* Runs one request, from its parameters to the end of its shutdown functions. */
void howdah_php_handle(const struct howdah_request *request, struct howdah_outcome *outcome);

/* Samples the next request, on the clock of the processor time or on the monotonic clock, until the
 * latter shows `end_us` or howdah_php_end_profile is called. Returns -1 if this process cannot. */
int howdah_php_profile(int is_processor_time, uint32_t period_us, uint64_t end_us, const uint64_t *ended);
void howdah_php_end_profile(void);

/*
 * Runs a worker script to its end. `boot` has its parameters and no client. Each call of
 * frankenphp_handle_request() calls the callback `serve` with `context`.
 * Returns why it has ended; 0 if it has not booted.
 */
enum howdah_end howdah_php_run_worker_script(const struct howdah_request *boot, void *context);

/* Handles one request by the function that the worker script has passed. Only for `serve`. A request
 * without a client is handled and its response is dropped. */
void howdah_php_handle_resident(const struct howdah_request *request,
                                struct howdah_outcome *outcome);

/* Compiles a worker script and does not run it. Returns false if it cannot be compiled;
 * howdah_php_boot_error() says why. */
bool howdah_php_compiles(const struct howdah_request *boot);

/* The error with which a worker script ended that never called frankenphp_handle_request(); empty if
 * there was none. */
const char *howdah_php_boot_error(void);

_Static_assert(sizeof(struct howdah_outcome) == 104, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_string) == 16, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_param) == 32, "shared with src/ffi/params.rs");
_Static_assert(offsetof(struct howdah_param, value) == 16, "shared with src/ffi/params.rs");
_Static_assert(sizeof(struct howdah_setting) == 40, "shared with src/ffi/params.rs");
_Static_assert(sizeof(struct howdah_request) == 128, "shared with src/ffi/params.rs");
_Static_assert(offsetof(struct howdah_request, authorization) == 48, "shared with src/ffi/params.rs");
_Static_assert(offsetof(struct howdah_request, content_length) == 24, "shared with src/ffi/params.rs");
_Static_assert(offsetof(struct howdah_outcome, broken) == 8, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_callbacks) == 136, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_call) == 56, "shared with src/ffi/callbacks.rs");
_Static_assert(sizeof(struct howdah_layout) == 23 * 8, "shared with src/ffi.rs");

#endif
