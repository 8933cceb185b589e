/*
 * mail(): sends messages in this process.
 *
 * PHP writes a message to the program of sendmail_path, which it starts through a shell. Where that is
 * Howdah's own program, the message is kept in memory instead, and this process does the work that the program
 * would do: it takes no shell, which a root directory of an application need not have, and a failure
 * is logged with the script and line. Other commands are started as ever.
 */
#include "internal.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_MESSAGES 16

/* The program, and the default of sendmail_path. */
static char *program, *command_line;

/* Messages that are being written. */
static struct {
    FILE *file;
    char *arguments;
} messages[MAX_MESSAGES];

void howdah_php_set_sendmail(const char *path)
{
    static const char arguments[] = " -t -i";
    size_t len = strlen(path);

    program = strdup(path);
    command_line = malloc(len + sizeof(arguments));
    if (command_line) {
        memcpy(command_line, path, len);
        memcpy(command_line + len, arguments, sizeof(arguments));
    }
}

const char *howdah_sendmail_command(void)
{
    return command_line;
}

/* Returns the arguments of a command line of the program; null for another one. */
static const char *own_arguments(const char *command)
{
    size_t len = program ? strlen(program) : 0;

    if (len == 0 || command == NULL || strncmp(command, program, len) != 0
        || (command[len] != ' ' && command[len] != '\0')) {
        return NULL;
    }
    command += len;
    return howdah_rust.takes_mail(command, strlen(command)) ? command : NULL;
}

/* Returns a file in memory that takes a message; null if there is none. */
static FILE *begin(const char *arguments)
{
    FILE *file;
    int fd;

    for (int i = 0; i < MAX_MESSAGES; i++) {
        if (messages[i].file) {
            continue;
        }
        fd = memfd_create("mail", MFD_CLOEXEC);
        file = fd < 0 ? NULL : fdopen(fd, "w");
        if (file == NULL) {
            if (fd >= 0) {
                close(fd);
            }
            return NULL;
        }
        messages[i].arguments = strdup(arguments);
        messages[i].file = file;
        return file;
    }
    return NULL;
}

/* Sends a message. Returns the exit status of sendmail. */
static int send_message(FILE *file, const char *arguments)
{
    const struct howdah_request *request = howdah_request();
    bool runs = zend_is_executing();
    const char *script = runs ? zend_get_executed_filename() : "";
    struct howdah_mail mail = {
        .arguments = arguments,
        .arguments_len = arguments ? strlen(arguments) : 0,
        .script = script,
        .script_len = strlen(script),
        .line = runs ? zend_get_executed_lineno() : 0,
        .message = fileno(file),
    };

    if (arguments == NULL || fflush(file) != 0 || ferror(file)) {
        return 74; /* EX_IOERR */
    }
    return howdah_rust.mail(request ? request->context : NULL, &mail);
}

/* These replace the functions of the C library in all code of this process. */
__attribute__((visibility("default"))) FILE *popen(const char *command, const char *mode)
{
    static FILE *(*plain)(const char *, const char *);
    const char *arguments = mode && *mode == 'w' ? own_arguments(command) : NULL;
    FILE *file = arguments ? begin(arguments) : NULL;

    if (file) {
        return file;
    }
    if (plain == NULL) {
        plain = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "popen");
    }
    return plain(command, mode);
}

__attribute__((visibility("default"))) int pclose(FILE *file)
{
    static int (*plain)(FILE *);
    int status;

    for (int i = 0; i < MAX_MESSAGES; i++) {
        if (file && messages[i].file == file) {
            status = send_message(file, messages[i].arguments);
            free(messages[i].arguments);
            messages[i].file = NULL;
            messages[i].arguments = NULL;
            fclose(file);
            return status << 8; /* as wait() has it */
        }
    }
    if (plain == NULL) {
        plain = (int (*)(FILE *))dlsym(RTLD_NEXT, "pclose");
    }
    return plain(file);
}
