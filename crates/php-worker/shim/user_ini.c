/*
 * Settings per directory: [PATH=…] and [HOST=…] sections of php.ini, and .user.ini files from the
 * document root down to the script's directory. Settings of .user.ini files are cached for
 * user_ini.cache_ttl seconds per directory of a script, as in PHP-FPM.
 */
#include "internal.h"

/* Maximum number of cached directories; beyond it the cache is cleared, so that a site with very
   many script directories needs bounded memory. */
#define MAX_DIRECTORIES 1024

struct directory {
    zend_long expires;
    HashTable settings;
};

static HashTable directories;

static void forget(zval *element)
{
    struct directory *directory = Z_PTR_P(element);

    zend_hash_destroy(&directory->settings);
    free(directory);
}

void howdah_user_ini_startup(void)
{
    zend_hash_init(&directories, 8, NULL, forget, 1);
}

/* Reads the files again. `path` ends in a slash; `root_len` excludes a trailing slash. If the path
   is not below the root, only its own directory is searched. */
static void read_files(char *path, const char *root, size_t root_len, HashTable *settings)
{
    size_t path_len = strlen(path);

    zend_hash_clean(settings);
    if (path_len > root_len && memcmp(path, root, root_len) == 0 && path[root_len] == '/') {
        for (char *slash = strchr(path + root_len, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            php_parse_user_ini_file(*path ? path : "/", PG(user_ini_filename), settings);
            *slash = '/';
        }
    } else {
        php_parse_user_ini_file(path, PG(user_ini_filename), settings);
    }
}

static void activate_files(char *path, size_t len)
{
    const struct howdah_string *root = HOWDAH_PARAM("DOCUMENT_ROOT");
    zend_long now = (zend_long)sapi_get_request_time();
    struct directory *directory;
    size_t root_len;

    if (root == NULL) {
        return;
    }
    root_len = root->len;
    if (root_len > 0 && root->data[root_len - 1] == '/') {
        root_len--;
    }
    directory = zend_hash_str_find_ptr(&directories, path, len);
    if (directory == NULL) {
        if (zend_hash_num_elements(&directories) >= MAX_DIRECTORIES) {
            zend_hash_clean(&directories);
        }
        directory = pemalloc(sizeof(*directory), 1);
        directory->expires = 0;
        zend_hash_init(&directory->settings, 0, NULL, config_zval_dtor, 1);
        zend_hash_str_update_ptr(&directories, path, len, directory);
    }
    if (now > directory->expires) {
        read_files(path, root->data, root_len, &directory->settings);
        directory->expires = now + PG(user_ini_cache_ttl);
    }
    php_ini_activate_config(&directory->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

/* PHP calls this below its own zend_try while it starts a request. */
int howdah_user_ini_activate(void)
{
    const char *script = SG(request_info).path_translated;
    const char *slash = script ? strrchr(script, '/') : NULL;
    bool files = PG(user_ini_filename) && *PG(user_ini_filename);

    /* The settings for a worker script apply from its boot on. */
    if (slash == NULL || howdah_in_resident_request()) {
        return SUCCESS;
    }
    if (php_ini_has_per_host_config()) {
        const struct howdah_string *host = HOWDAH_PARAM("SERVER_NAME");

        if (host) {
            char *lower = zend_str_tolower_dup(host->data, host->len);

            php_ini_activate_per_host_config(lower, host->len);
            efree(lower);
        }
    }
    if (files || php_ini_has_per_dir_config()) {
        size_t len = slash + 1 - script;
        char *path = estrndup(script, len);

        php_ini_activate_per_dir_config(path, len);
        if (files) {
            activate_files(path, len);
        }
        efree(path);
    }
    howdah_apply_settings_again();
    return SUCCESS;
}
