/*
 * PHP's information and modules on standard output, as PHP-FPM prints them with -i and -m.
 */
#include "internal.h"
#include "ext/standard/info.h"
#include "zend_extensions.h"

#include <strings.h>

static size_t write_plain(const char *text, size_t len)
{
    return fwrite(text, 1, len, stdout);
}

static int compare_modules(Bucket *one, Bucket *other)
{
    return strcasecmp(((zend_module_entry *)Z_PTR(one->val))->name,
                      ((zend_module_entry *)Z_PTR(other->val))->name);
}

static int compare_extensions(const zend_llist_element **one, const zend_llist_element **other)
{
    return strcmp(((zend_extension *)(*one)->data)->name, ((zend_extension *)(*other)->data)->name);
}

static void print_modules(void)
{
    HashTable modules;
    zend_llist extensions;
    zend_llist_position position;
    zend_module_entry *module;

    zend_hash_init(&modules, 64, NULL, NULL, 0);
    zend_hash_copy(&modules, &module_registry, NULL);
    zend_hash_sort(&modules, compare_modules, 0);
    php_printf("[PHP Modules]\n");
    ZEND_HASH_FOREACH_PTR(&modules, module) {
        php_printf("%s\n", module->name);
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(&modules);

    zend_llist_copy(&extensions, &zend_extensions);
    extensions.dtor = NULL;
    zend_llist_sort(&extensions, compare_extensions);
    php_printf("\n[Zend Modules]\n");
    for (zend_extension *extension = zend_llist_get_first_ex(&extensions, &position); extension;
         extension = zend_llist_get_next_ex(&extensions, &position)) {
        php_printf("%s\n", extension->name);
    }
    php_printf("\n");
    zend_llist_destroy(&extensions);
}

int howdah_php_information(bool is_of_modules)
{
    volatile bool is_printed = false;

    sapi_module.ub_write = write_plain;
    sapi_module.phpinfo_as_text = 1;
    zend_first_try {
        if (php_request_startup() == SUCCESS) {
            SG(headers_sent) = 1;
            SG(request_info).no_headers = 1;
            if (is_of_modules) {
                print_modules();
            } else {
                php_print_info(PHP_INFO_ALL);
            }
            is_printed = true;
        }
    } zend_end_try();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    return is_printed && fflush(stdout) == 0 ? 0 : -1;
}
