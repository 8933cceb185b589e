/*
 * Wrappers, filters and the default context of streams: after each request to a worker script, they are those
 * that the boot has left.
 */
#include "internal.h"

#include "ext/standard/basic_functions.h"
#include "ext/standard/file.h"

/* Tables after the boot; null where PHP's own are used. */
static HashTable *wrappers, *filters, *user_filters;
static zval options;
/* The notifier of the default context after the boot. */
static struct {
    php_stream_notification_func func;
    void (*dtor)(php_stream_notifier *);
    zval function;
} notifier;

/* The resource that PHP creates for each wrapper of a script has a higher number if a request creates it. */
static zend_ulong first_resource;

/* The request may have changed the wrappers. */
static bool has_changed_wrappers;

#define WATCHED(name)                                      \
    static zif_handler php_##name;                         \
    static ZEND_FUNCTION(howdah_watched_##name)            \
    {                                                      \
        has_changed_wrappers = true;                       \
        php_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
    }

WATCHED(stream_wrapper_register)
WATCHED(stream_register_wrapper) /* an alias, which has a handler of its own in PHP's table */
WATCHED(stream_wrapper_unregister)
WATCHED(stream_wrapper_restore)

/* readdir() and its like without an argument use the last directory that opendir() or dir() has opened.
   PHP forgets it only with the request, and not if a directory cannot be opened. */
static bool has_opened_directory;

#define WATCHED_OPENING(name)                              \
    static zif_handler php_##name;                         \
    static ZEND_FUNCTION(howdah_watched_##name)            \
    {                                                      \
        php_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
        if (Z_TYPE_P(return_value) == IS_RESOURCE || Z_TYPE_P(return_value) == IS_OBJECT) { \
            has_opened_directory = true;                   \
        }                                                  \
    }

#define WATCHED_USE(name)                                              \
    static zif_handler php_##name;                                     \
    static ZEND_FUNCTION(howdah_watched_##name)                        \
    {                                                                  \
        if (!has_opened_directory && has_no_directory(execute_data)) { \
            zend_type_error("No resource supplied");                   \
            RETURN_THROWS();                                           \
        }                                                              \
        php_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);                  \
    }

static bool has_no_directory(zend_execute_data *execute_data)
{
    return ZEND_NUM_ARGS() == 0
        || (ZEND_NUM_ARGS() == 1 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_NULL);
}

WATCHED_OPENING(opendir)
WATCHED_OPENING(dir)
WATCHED_USE(readdir)
WATCHED_USE(rewinddir)
WATCHED_USE(closedir)

#define WATCH(name) howdah_watch(#name, &php_##name, ZEND_FN(howdah_watched_##name))

void howdah_watch_streams(void)
{
    WATCH(stream_wrapper_register);
    WATCH(stream_register_wrapper);
    WATCH(stream_wrapper_unregister);
    WATCH(stream_wrapper_restore);
    WATCH(opendir);
    WATCH(dir);
    WATCH(readdir);
    WATCH(rewinddir);
    WATCH(closedir);
}

static ssize_t read_nothing(php_stream *stream, char *buffer, size_t count)
{
    stream->eof = 1;
    return 0;
}

static ssize_t write_nothing(php_stream *stream, const char *buffer, size_t count)
{
    return -1;
}

static int flush_nothing(php_stream *stream)
{
    return 0;
}

/* Of a stream of php://input after its request. `close` is PHP's own. */
static php_stream_ops ended_input
    = {.read = read_nothing, .write = write_nothing, .flush = flush_nothing, .label = "Input"};

/* The streams have no reference to the body, which PHP keeps to the end of the process otherwise. They are
   not freed: objects such as SplFileObject and XMLReader know their address. */
void howdah_end_input_streams(const php_stream *body)
{
    zend_resource *resource;

    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        php_stream *stream = resource->ptr;

        /* Their private data begins with the body (php_stream_input in php_fopen_wrapper.c). */
        if (resource->type == php_file_le_stream() && stream && strcmp(stream->ops->label, "Input") == 0
            && stream->ops != &ended_input && *(php_stream **)stream->abstract == body) {
            ended_input.close = stream->ops->close;
            stream->ops = &ended_input;
            /* Drops the bytes that were read ahead. */
            stream->readpos = stream->writepos = 0;
            stream->eof = 1;
        }
    } ZEND_HASH_FOREACH_END();
}

static HashTable *copy_of(HashTable *table)
{
    HashTable *copy;

    if (table == NULL) {
        return NULL;
    }
    ALLOC_HASHTABLE(copy);
    zend_hash_init(copy, zend_hash_num_elements(table), NULL, NULL, 0);
    zend_hash_copy(copy, table, NULL);
    return copy;
}

static void remove_table(HashTable **table)
{
    if (*table) {
        zend_hash_destroy(*table);
        FREE_HASHTABLE(*table);
        *table = NULL;
    }
}

static void remember_context(const php_stream_context *context)
{
    zval_ptr_dtor(&options);
    ZVAL_UNDEF(&options);
    zval_ptr_dtor(&notifier.function);
    memset(&notifier, 0, sizeof(notifier));
    if (context && zend_hash_num_elements(Z_ARRVAL(context->options)) > 0) {
        ZVAL_ARR(&options, zend_array_dup(Z_ARRVAL(context->options)));
    }
    if (context && context->notifier && !Z_ISUNDEF(context->notifier->ptr)) {
        notifier.func = context->notifier->func;
        notifier.dtor = context->notifier->dtor;
        ZVAL_COPY(&notifier.function, &context->notifier->ptr);
    }
}

void howdah_remember_streams(void)
{
    remove_table(&wrappers);
    remove_table(&filters);
    remove_table(&user_filters);
    wrappers = copy_of(FG(stream_wrappers));
    filters = copy_of(FG(stream_filters));
    user_filters = copy_of(BG(user_filter_map));
    first_resource = EG(regular_list).nNextFreeElement;
    has_changed_wrappers = false;
    has_opened_directory = false;
    remember_context(FG(default_context));
}

/* Returns true if a stream that is still open was opened by a wrapper. */
static bool is_in_use(const void *wrapper)
{
    zend_resource *resource;

    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if ((resource->type == php_file_le_stream()) && resource->ptr
            && (const void *)((const php_stream *)resource->ptr)->wrapper == wrapper) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

/* Frees the wrappers that the request has registered. PHP does so at the end of a request. */
static void free_wrappers(void)
{
    int type = zend_fetch_list_dtor_id("stream factory");
    zend_resource *resource;

    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        /* The freed object begins with the wrapper (php_user_stream_wrapper in main/streams/userspace.c). */
        if (resource->type == type && (zend_ulong)resource->handle >= first_resource
            && GC_REFCOUNT(resource) == 1 && !is_in_use(resource->ptr)) {
            zend_list_delete(resource);
        }
    } ZEND_HASH_FOREACH_END();
}

static void restore_wrappers(void)
{
    if (has_changed_wrappers) {
        has_changed_wrappers = false;
        remove_table(&FG(stream_wrappers));
        FG(stream_wrappers) = copy_of(wrappers);
        free_wrappers();
    }
}

/* Removes the members of a table that the boot has not left. */
static void remove_new(HashTable **table, HashTable *expected)
{
    zend_string *name;

    if (*table == NULL) {
        return;
    }
    if (expected == NULL) {
        remove_table(table);
        return;
    }
    if (zend_hash_num_elements(*table) == zend_hash_num_elements(expected)) {
        return;
    }
    ZEND_HASH_FOREACH_STR_KEY(*table, name) {
        if (name && !zend_hash_exists(expected, name)) {
            zend_hash_del(*table, name);
        }
    } ZEND_HASH_FOREACH_END();
}

static void restore_notifier(php_stream_context *context)
{
    if (context->notifier) {
        php_stream_notification_free(context->notifier);
        context->notifier = NULL;
    }
    if (notifier.func) {
        context->notifier = php_stream_notification_alloc();
        context->notifier->func = notifier.func;
        context->notifier->dtor = notifier.dtor;
        ZVAL_COPY(&context->notifier->ptr, &notifier.function);
    }
}

/* The default context has the options and the function of the boot, if it has set any. */
static void restore_context(void)
{
    php_stream_context *context = FG(default_context);

    if (context == NULL) {
        return;
    }
    if (Z_TYPE(options) != IS_ARRAY && notifier.func == NULL) {
        zend_list_delete(context->res);
        FG(default_context) = NULL;
        return;
    }
    zval_ptr_dtor(&context->options);
    if (Z_TYPE(options) == IS_ARRAY) {
        ZVAL_ARR(&context->options, zend_array_dup(Z_ARRVAL(options)));
    } else {
        array_init(&context->options);
    }
    restore_notifier(context);
}

void howdah_restore_streams(void)
{
    restore_wrappers();
    remove_new(&FG(stream_filters), filters);
    remove_new(&BG(user_filter_map), user_filters);
    restore_context();
    has_opened_directory = false;
}
