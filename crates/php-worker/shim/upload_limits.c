/*
 * Lines in the log about bodies and files above PHP's limits. PHP drops them: it has a message of its own for bodies
 * only, which log_errors can switch off, and scripts often do not mention a file that did not arrive.
 */
#include "internal.h"

#include "rfc1867.h"
#include <sys/mman.h>
#include <syslog.h>
#include <time.h>

/* Shortest time between two lines of an application about the same limit, in seconds. */
#define PAUSE 60

/* Times of the last lines. All processes of an application share them, and no others do. A script that writes to this
 * memory gets more or fewer lines about its own application. */
struct last_lines {
    time_t body;
    time_t file;
};
static struct last_lines unshared, *last_lines = &unshared;

static void note(time_t *last, const char *what, const char *setting)
{
    const struct howdah_request *request = SG(server_context);
    time_t now = time(NULL), before = __atomic_load_n(last, __ATOMIC_RELAXED);
    char text[512];
    int len;

    if (request == NULL || (before != 0 && now >= before && now - before < PAUSE)) {
        return;
    }
    if (!__atomic_compare_exchange_n(last, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return; /* Another process writes the line. */
    }
    len = snprintf(text, sizeof(text),
                   "%s of %" PRId64 " bytes exceeds %s (%s), and PHP has dropped it; raise %s in the application's "
                   "\"options\" or in php.ini%s",
                   what, (int64_t)SG(request_info).content_length, setting, zend_ini_string_ex((char *)setting, strlen(setting), 0, NULL),
                   setting,
                   strcmp(setting, "post_max_size") == 0 ? "" : ", and keep post_max_size above it");
    if (len > 0) {
        howdah_rust.log(request->context, LOG_WARNING, text, MIN((size_t)len, sizeof(text) - 1));
    }
}

void howdah_note_body_limit(void)
{
    const char *method = SG(request_info).request_method;

    if (SG(post_max_size) > 0 && SG(request_info).content_length > SG(post_max_size) && method
        && strcmp(method, "POST") == 0) {
        note(&last_lines->body, "a request body", "post_max_size");
    }
}

static int (*next)(unsigned int event, void *event_data, void **extra);

static int uploading(unsigned int event, void *event_data, void **extra)
{
    /* 1 stands for UPLOAD_ERR_INI_SIZE. */
    if (event == MULTIPART_EVENT_FILE_END && ((multipart_event_file_end *)event_data)->cancel_upload == 1) {
        note(&last_lines->file, "a file in a request body", "upload_max_filesize");
    }
    return next ? next(event, event_data, extra) : SUCCESS;
}

void howdah_hook_uploads(void)
{
    /* The prototype, whose workers inherit it, runs this. */
    void *shared =
        mmap(NULL, sizeof(struct last_lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared != MAP_FAILED) {
        last_lines = shared;
    }
    next = php_rfc1867_callback;
    php_rfc1867_callback = uploading;
}
