/*
 * The memory that PHP keeps between two requests.
 */
#include "internal.h"

#include <malloc.h>
#include <sys/mman.h>

/* zend_mm_shutdown() keeps as many chunks as the last requests had on average at their peaks. Each
   further call halves the distance of this average from one chunk, so that PHP frees all chunks
   that it kept from requests of up to 500 MB. */
#define SHUTDOWNS 8

void howdah_php_release_memory(void)
{
    /* Between requests no block is allocated there; if an extension has allocated one, its
       memory must stay. USE_ZEND_ALLOC=0 replaces the heap by malloc(). */
    if (is_zend_mm() && zend_memory_usage(false) == 0) {
        char *chunk = (char *)((uintptr_t)zend_mm_get_heap() & ~(uintptr_t)(ZEND_MM_CHUNK_SIZE - 1));

        for (int i = 0; i < SHUTDOWNS; i++) {
            shutdown_memory_manager(true, false);
        }
        /* The first pages hold the heap's own data, all others are free. */
        madvise(chunk + ZEND_MM_FIRST_PAGE * ZEND_MM_PAGE_SIZE,
                ZEND_MM_CHUNK_SIZE - ZEND_MM_FIRST_PAGE * ZEND_MM_PAGE_SIZE, MADV_DONTNEED);
    }
    malloc_trim(0);
    if (!howdah_is_resident()) {
        howdah_go_home(); /* A worker without requests keeps no file system from being unmounted. */
    }
}
