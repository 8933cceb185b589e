/*
 * PHP's messages while a script runs for no client: the boot of a worker script, and the time between two requests. What
 * the script prints then goes to the log, as PHP's messages do by themselves (log_errors). They are not printed as well,
 * and those that are printed are text.
 */
#include "internal.h"

/* Sets the state that a setting controls to its value. */
static void apply(const char *name, size_t length)
{
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, length);

    if (entry && entry->on_modify && entry->value) {
        entry->on_modify(entry, entry->value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3,
                         ZEND_INI_STAGE_RUNTIME);
    }
}

void howdah_messages_to_log(void)
{
    if (PG(log_errors)) {
        PG(display_errors) = 0;
    }
    PG(html_errors) = 0;
}

void howdah_messages_to_client(void)
{
    apply(ZEND_STRL("display_errors"));
    apply(ZEND_STRL("html_errors"));
}
