/*
 * The session of a request to a worker script.
 */
#include "internal.h"

#include <dlfcn.h>

#include "ext/session/php_session.h"

/* The state of PHP's sessions; null if PHP has none. */
static php_ps_globals *session;

void howdah_find_sessions(void)
{
    session = dlsym(RTLD_DEFAULT, "ps_globals");
}

void howdah_auto_start_session(void)
{
    zval started;

    if (session && session->auto_start) {
        howdah_call("session_start", &started);
        zval_ptr_dtor(&started);
    }
}

/* Returns whether a value of a session may be or hold an object. */
static bool may_hold_object(zval *value, int depth)
{
    zval *element;

    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) != IS_ARRAY) {
        return Z_TYPE_P(value) == IS_OBJECT;
    }
    if (depth == 0) {
        return true;
    }
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(value), element) {
        ZVAL_DEINDIRECT(element);
        if (may_hold_object(element, depth - 1)) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

/* If the session has an object that cannot be stored, it is closed and stays as it was stored last. PHP
   does that at the end of a script; where a function runs, as here, it would store an empty session. */
static enum howdah_end refuse_broken_session(void)
{
    zval result;
    enum howdah_end end;

    if (Z_ISUNDEF(session->http_session_vars) || !may_hold_object(&session->http_session_vars, 8)) {
        return HOWDAH_END_NONE;
    }
    howdah_call("session_encode", &result);
    zval_ptr_dtor(&result);
    if (EG(exception) == NULL) {
        return HOWDAH_END_NONE;
    }
    end = howdah_settle_exception();
    howdah_call("session_abort", &result);
    zval_ptr_dtor(&result);
    return end == HOWDAH_END_NONE ? howdah_settle_exception() : end;
}

static enum howdah_end write_session(void)
{
    enum howdah_end end;
    zval closed;

    if (session == NULL || session->session_status != php_session_active) {
        return HOWDAH_END_NONE;
    }
    end = refuse_broken_session();
    if (end != HOWDAH_END_NONE || session->session_status != php_session_active) {
        return end;
    }
    howdah_call("session_write_close", &closed);
    zval_ptr_dtor(&closed);
    return howdah_settle_exception();
}

enum howdah_end howdah_write_user_session(void)
{
    return session && session->mod_user_implemented ? write_session() : HOWDAH_END_NONE;
}

/* PHP defines SID when it starts a session, and changes it with the next one. Until then, it would show
   a visitor the session of another one. Constants cannot be removed: compiled scripts point to them. */
static void empty_session_constant(void)
{
    zval *value = zend_get_constant_str(ZEND_STRL("SID"));

    if (value && Z_TYPE_P(value) == IS_STRING
        && ZEND_CONSTANT_MODULE_NUMBER((zend_constant *)value) != PHP_USER_CONSTANT) {
        zval_ptr_dtor(value);
        ZVAL_EMPTY_STRING(value);
    }
}

enum howdah_end howdah_end_session(void)
{
    enum howdah_end end = write_session();

    if (session == NULL) {
        return end;
    }
    if (!Z_ISUNDEF(session->http_session_vars)) {
        zval_ptr_dtor(&session->http_session_vars);
        ZVAL_UNDEF(&session->http_session_vars);
    }
    if (session->mod && (session->mod_data || session->mod_user_implemented)) {
        session->mod->s_close(&session->mod_data);
    }
    if (session->id) {
        zend_string_release_ex(session->id, 0);
        session->id = NULL;
    }
    if (session->session_vars) {
        zend_string_release_ex(session->session_vars, 0);
        session->session_vars = NULL;
    }
    if (session->session_status == php_session_active) {
        session->session_status = php_session_none;
    }
    session->in_save_handler = 0;
    session->mod_data = NULL;
    session->mod_user_is_open = 0;
    session->define_sid = 1;
    empty_session_constant();
    return end;
}
