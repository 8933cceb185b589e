/*
 * The working directory of scripts.
 *
 * Each script runs in its own directory. Code of it that runs after it, such as shutdown functions, and
 * all that runs before the next script, run in the working directory of the application. A worker stays in
 * the directory of its script if no part of the script runs after it, and enters it again only if the path
 * of the next script may lead elsewhere: two system calls less for each request.
 */
#include "internal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ext/session/php_session.h"
#include "ext/standard/basic_functions.h"

/* Descriptor of the working directory to return to after a script. */
static int home_directory = -1;

/* The directory of the script that was entered last, and the script's file then. */
static struct {
    char path[MAXPATHLEN];
    zend_stat_t script;
} entered;

/* True if the directory may have changed since it was last entered or remembered. */
static bool has_moved = true;

static bool is_at_home;

/* These replace the functions of the C library in all code of this process, so that no script can change
   the directory unnoticed. */
__attribute__((visibility("default"))) int chdir(const char *path)
{
    has_moved = true;
    is_at_home = false;
    return (int)syscall(SYS_chdir, path);
}

__attribute__((visibility("default"))) int fchdir(int fd)
{
    has_moved = true;
    is_at_home = false;
    return (int)syscall(SYS_fchdir, fd);
}

int howdah_remember_directory(void)
{
    has_moved = false;
    return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool howdah_restore_directory(int directory)
{
    if (has_moved && directory >= 0 && fchdir(directory) != 0) {
        return false;
    }
    has_moved = false;
    return true;
}

/* If a later script's directory cannot be entered, it must not run in that of an earlier one. The way home
   is a descriptor, since the user may have no access to the path, or the path may lead elsewhere by now.
   Programs that scripts start do not inherit the descriptor. */
void howdah_directory_child(void)
{
    home_directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    has_moved = true;
    is_at_home = true;
}

static void go_home(void)
{
    if (home_directory >= 0 && fchdir(home_directory) != 0) {
        /* Cannot fail: the descriptor stays open. */
    }
    is_at_home = true;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* True if this process is in the directory in which the path of the script is now. The path may lead to
   another directory than before, for example in a new release of the site; then to another file. A file
   with one name is in one directory only, unless it was moved, which changes its time. */
static bool is_in_directory_of(const char *path, size_t len, const zend_stat_t *script)
{
    return !has_moved && strncmp(entered.path, path, len) == 0 && entered.path[len] == '\0'
           && script->st_nlink == 1 && script->st_ino == entered.script.st_ino
           && script->st_dev == entered.script.st_dev
           && is_same_time(&script->st_ctim, &entered.script.st_ctim);
}

void howdah_enter_directory_of(const char *path, const zend_stat_t *script, bool is_link)
{
    size_t len = strrchr(path, '/') - path;

    SG(options) |= SAPI_OPTION_NO_CHDIR;
    if (len == 0) {
        len = 1;
    }
    if (!is_link && is_in_directory_of(path, len, script)) {
        return;
    }
    /* Shorter than MAXPATHLEN: see refuse_script. */
    memcpy(entered.path, path, len);
    entered.path[len] = '\0';
    entered.script = *script;
    if (is_link) {
        entered.script.st_ino = 0; /* It does not identify the directory. */
    }
    if (chdir(entered.path) == 0) {
        has_moved = false;
    } else {
        /* No error, as under PHP-FPM: a script that needs the directory will fail by itself. */
        go_home();
    }
}

static bool has_objects(void)
{
    const zend_objects_store *store = &EG(objects_store);

    for (uint32_t i = 1; i < store->top; i++) {
        if (IS_OBJ_VALID(store->object_buckets[i])) {
            return true;
        }
    }
    return false;
}

static bool has_user_output_handler(void)
{
    php_output_handler **handlers = zend_stack_base(&OG(handlers));

    for (int i = 0; i < zend_stack_count(&OG(handlers)); i++) {
        if (handlers[i]->flags & PHP_OUTPUT_HANDLER_USER) {
            return true;
        }
    }
    return false;
}

/* Sessions are written after the script, by functions of it or to a path relative to the directory, and may
   begin before the next one. */
static bool uses_sessions(void)
{
    static const php_ps_globals *session;

    if (session == NULL) {
        session = dlsym(RTLD_DEFAULT, "ps_globals");
    }
    return session && (session->auto_start || session->session_status == php_session_active);
}

static bool logs_to_relative_path(void)
{
    const char *path = INI_STR("error_log");

    return path && *path && *path != '/';
}

/* True if PHP's work between this script and the next one depends on the directory. */
static bool is_directory_used(void)
{
    return BG(user_shutdown_function_names) || Z_TYPE(SG(callback_func)) != IS_UNDEF
           || Z_TYPE(EG(user_error_handler)) != IS_UNDEF || has_user_output_handler()
           || has_objects() || uses_sessions() || logs_to_relative_path();
}

void howdah_leave_directory(void)
{
    if (has_moved || is_directory_used()) {
        go_home();
    }
}

void howdah_go_home(void)
{
    if (!is_at_home) {
        go_home();
    }
}
