/*
 * mail() and mb_send_mail(): logs the reason when they fail and cannot work at all.
 */
#include "internal.h"

/* The text for the log, or null. */
static char *advice;

static zif_handler plain_mail, plain_mb_mail;

static void call(zif_handler plain, INTERNAL_FUNCTION_PARAMETERS)
{
    const struct howdah_request *request;

    plain(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) == IS_FALSE && advice) {
        request = howdah_request();
        howdah_rust.log(request ? request->context : NULL, 3, advice, strlen(advice));
    }
}

static ZEND_FUNCTION(mail_or_advice)
{
    call(plain_mail, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(mb_mail_or_advice)
{
    call(plain_mb_mail, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Replaces the handler of a function. Returns the original handler; null if there is no such
 * function. */
static zif_handler replace(const char *name, size_t len, zif_handler handler)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, len);
    zif_handler plain = NULL;

    if (function && function->type == ZEND_INTERNAL_FUNCTION) {
        plain = function->internal_function.handler;
        function->internal_function.handler = handler;
    }
    return plain;
}

void howdah_php_set_mail_advice(const char *text)
{
    advice = strdup(text);
    plain_mail = replace(ZEND_STRL("mail"), ZEND_FN(mail_or_advice));
    plain_mb_mail = replace(ZEND_STRL("mb_send_mail"), ZEND_FN(mb_mail_or_advice));
}
