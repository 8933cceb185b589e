/*
 * Transactions of PDO that a request to a worker script leaves open. In classic PHP they are rolled back
 * with the connection at the end of the request. Here the connection may stay in an object of the script,
 * and the next visitor's changes would belong to the transaction of the last one.
 */
#include "internal.h"

#include <syslog.h>

#include "zend_exceptions.h"
#include "zend_objects_API.h"

/* Maximum number of connections that are remembered; with more, all objects are looked at. */
#define MAX_CONNECTIONS 16

static zend_class_entry *pdo;
static zif_handler php_begin_transaction;
/* Numbers of the objects that have begun a transaction during the request. No reference is kept: the
   connection closes when the script says so. */
static uint32_t connections[MAX_CONNECTIONS];
static size_t connection_count;

static ZEND_FUNCTION(howdah_begin_transaction)
{
    if (connection_count < MAX_CONNECTIONS) {
        connections[connection_count] = Z_OBJ_HANDLE_P(ZEND_THIS);
    }
    connection_count++;
    php_begin_transaction(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void howdah_watch_transactions(void)
{
    zend_class_entry *class;

    if (pdo) {
        return;
    }
    pdo = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo"));
    if (pdo == NULL) {
        return;
    }
    /* Each class has a copy of the method that it inherits. */
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        zend_function *method;

        /* Parents of preloaded classes may be known by name only. */
        if ((class != pdo && !(class->ce_flags & ZEND_ACC_LINKED)) || !instanceof_function(class, pdo)) {
            continue;
        }
        method = zend_hash_str_find_ptr(&class->function_table, ZEND_STRL("begintransaction"));
        if (method && method->type == ZEND_INTERNAL_FUNCTION
            && method->internal_function.handler != ZEND_FN(howdah_begin_transaction)) {
            php_begin_transaction = method->internal_function.handler;
            method->internal_function.handler = ZEND_FN(howdah_begin_transaction);
        }
    } ZEND_HASH_FOREACH_END();
}

void howdah_forget_transactions(void)
{
    connection_count = 0;
}

static bool call_method(zend_object *object, const char *name)
{
    zend_function *method = zend_hash_str_find_ptr(&pdo->function_table, name, strlen(name));
    zval result;
    bool is_true;

    ZVAL_UNDEF(&result);
    if (method == NULL) {
        return false;
    }
    /* The method of PDO itself, not one of the script. */
    zend_call_known_function(method, object, object->ce, &result, 0, NULL, NULL);
    is_true = Z_TYPE(result) == IS_TRUE;
    zval_ptr_dtor(&result);
    return is_true;
}

static void roll_back(uint32_t handle)
{
    static const char left_open[] = "PHP: the request has left a transaction open, which is rolled back";
    zend_object *object;

    if (handle == 0 || handle >= EG(objects_store).top) {
        return;
    }
    object = EG(objects_store).object_buckets[handle];
    if (!IS_OBJ_VALID(object) || (OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)
        || !instanceof_function(object->ce, pdo)) {
        return;
    }
    GC_ADDREF(object);
    if (call_method(object, "intransaction") && !EG(exception)) {
        const struct howdah_request *request = howdah_client_request();

        call_method(object, "rollback");
        /* Not as an error of PHP: a function of the script would get it. */
        howdah_rust.log(request ? request->context : NULL, LOG_NOTICE, left_open, sizeof(left_open) - 1);
    }
    /* The server has closed the connection, for example: the transaction has ended. */
    if (EG(exception)) {
        zend_clear_exception();
    }
    OBJ_RELEASE(object);
}

void howdah_end_transactions(void)
{
    size_t count = connection_count;

    if (count == 0) {
        return;
    }
    if (count > MAX_CONNECTIONS) {
        for (uint32_t handle = 1; handle < EG(objects_store).top; handle++) {
            roll_back(handle);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            roll_back(connections[i]);
        }
    }
    connection_count = 0;
}
