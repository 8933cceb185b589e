/*
 * The boundary between the Rust side and the C side of howdah-php. src/ffi.rs declares the same in
 * Rust; both sides assert sizes and offsets.
 *
 * Rules of the boundary:
 *
 * - Only C calls Zend, and always below a zend_try: a bailout is a longjmp, which must not cross
 *   a Rust frame. A callback therefore never calls back into PHP; it copies bytes and returns a
 *   status, and C decides whether to bail out.
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

/* A request. All pointers are valid until howdah_php_handle returns. */
struct howdah_request {
    /* Passed to every callback. */
    void *context;
    const struct howdah_param *params;
    size_t param_count;
    /* Bytes that the callback `read` will deliver. */
    int64_t content_length;
};

/* The result of a request. */
struct howdah_outcome {
    /* memory_get_peak_usage(true) */
    uint64_t peak_memory;
    /* Not 0: this process must not serve another request. */
    uint64_t broken;
};

/* The result of a callback. */
enum howdah_status {
    HOWDAH_OK = 0,
    /* The client has closed its connection: further output is dropped. */
    HOWDAH_DISCONNECTED = 1,
};

/*
 * The Rust side. `context` is that of the request; only `log` may be called without a request,
 * with a null pointer, and `exiting` has none.
 */
struct howdah_callbacks {
    int (*write)(void *context, const char *data, size_t len);
    int (*flush)(void *context);
    /* The head of a response: begin, any number of fields ("Name: value"), end. */
    void (*head_begin)(void *context, uint32_t status, const char *reason, size_t len);
    void (*head_field)(void *context, const char *line, size_t len);
    int (*head_end)(void *context, int informational);
    /* Completes the response while the script goes on. Returns 0 if it was complete before. */
    int (*finish)(void *context);
    /* Reads the request's body. Returns fewer bytes than requested only at its end. */
    size_t (*read)(void *context, char *buffer, size_t len);
    void (*log)(void *context, int severity, const char *message, size_t len);
    /* The status of the application, as JSON; valid until the next call. Empty if the router does
       not answer. */
    const char *(*status)(void *context, size_t *len);
    /* Called when PHP ends the process while it is being loaded. */
    void (*exiting)(void);
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

/* What a start that pauses calls. */
struct howdah_pause {
    void *context;
    /* Called once the settings have been read, before the first extension is loaded. */
    void (*check)(void *context);
    /* Called before OPcache and preloading start. Forks, and returns in each new process with the
       settings that its start goes on with. */
    void (*pause)(void *context, struct howdah_settings *settings);
};

/* Loads PHP with the default php.ini, or with `ini_file`, and pauses. 0 on success, in a new process
 * only. */
int howdah_php_start_paused(const struct howdah_callbacks *callbacks, const char *ini_file,
                            const struct howdah_pause *pause);

/* The directory of extensions. Valid while a start checks or pauses, as those below. */
const char *howdah_php_extension_dir(void);

/* The path of php.ini, or where it is missing; the directories of further files, separated by colons, or
 * null; the paths of these files, separated by commas, or null. */
const char *howdah_php_ini_file(void);
const char *howdah_php_ini_directories(void);
const char *howdah_php_ini_scanned(void);

/* Makes howdah_php_start() run no preload script; howdah_php_preload() returns its name. */
void howdah_php_skip_preload(void);

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

/* Sets a text, which is copied, that is logged whenever mail() fails. Call once, after
 * howdah_php_start. */
void howdah_php_set_mail_advice(const char *text);

/* The value of a setting, or null if nothing has it. Valid after howdah_php_start, until it is changed. */
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

_Static_assert(sizeof(struct howdah_string) == 16, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_param) == 32, "shared with src/ffi.rs");
_Static_assert(offsetof(struct howdah_param, value) == 16, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_request) == 32, "shared with src/ffi.rs");
_Static_assert(offsetof(struct howdah_request, content_length) == 24, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_outcome) == 16, "shared with src/ffi.rs");
_Static_assert(offsetof(struct howdah_outcome, broken) == 8, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_callbacks) == 80, "shared with src/ffi.rs");
_Static_assert(sizeof(struct howdah_layout) == 23 * 8, "shared with src/ffi.rs");

#endif
