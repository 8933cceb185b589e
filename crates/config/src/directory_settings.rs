//! Settings of PHP that may differ from one request to the next.
//!
//! PHP lets a directory change them (`PHP_INI_ALL`, `PHP_INI_PERDIR`). The list is for those that
//! cannot ask PHP: what a `.htaccess` may send to PHP-FPM, and the settings of sites that share an
//! application. PHP-FPM applies the parameter `PHP_VALUE` without a check of the right to change a
//! setting: it sets those of `php.ini` only, lifts `open_basedir`, and loads the library that
//! `extension` names. mod_php and the workers of this server ask. `open_basedir` is not in the list,
//! since PHP-FPM would widen it.

/// Names of settings, in order.
const NAMES: &[&str] = &[
    "arg_separator.input",
    "arg_separator.output",
    "assert.active",
    "assert.bail",
    "assert.callback",
    "assert.exception",
    "assert.warning",
    "auto_append_file",
    "auto_detect_line_endings",
    "auto_globals_jit",
    "auto_prepend_file",
    "browscap",
    "date.default_latitude",
    "date.default_longitude",
    "date.timezone",
    "default_charset",
    "default_mimetype",
    "default_socket_timeout",
    "display_errors",
    "docref_ext",
    "docref_root",
    "error_append_string",
    "error_log",
    "error_prepend_string",
    "error_reporting",
    "fastcgi.logging",
    "from",
    "gd.jpeg_ignore_warning",
    "highlight.comment",
    "highlight.default",
    "highlight.html",
    "highlight.keyword",
    "highlight.string",
    "html_errors",
    "ignore_repeated_errors",
    "ignore_repeated_source",
    "ignore_user_abort",
    "implicit_flush",
    "include_path",
    "input_encoding",
    "internal_encoding",
    "log_errors",
    "log_errors_max_len",
    "max_execution_time",
    "max_input_nesting_level",
    "max_input_time",
    "max_input_vars",
    "max_multipart_body_parts",
    "memory_limit",
    "output_buffering",
    "output_encoding",
    "output_handler",
    "pcre.backtrack_limit",
    "pcre.recursion_limit",
    "post_max_size",
    "precision",
    "report_memleaks",
    "request_order",
    "serialize_precision",
    "short_open_tag",
    "unserialize_callback_func",
    "unserialize_max_depth",
    "upload_max_filesize",
    "url_rewriter.hosts",
    "url_rewriter.tags",
    "user_agent",
    "variables_order",
    "xmlrpc_error_number",
    "xmlrpc_errors",
    "zend.assertions",
    "zend.detect_unicode",
    "zend.enable_gc",
    "zend.exception_ignore_args",
    "zend.exception_string_param_max_len",
    "zend.multibyte",
    "zend.script_encoding",
    "zlib.output_compression",
    "zlib.output_compression_level",
    "zlib.output_handler",
];

/// Starts of names of extensions' settings that a directory may change, all of them.
const PREFIXES: [&str; 4] = ["iconv.", "intl.", "mbstring.", "session."];

/// Settings that change what a script is compiled to. OPcache keeps one result for each script.
const COMPILED: [&str; 8] = [
    "auto_globals_jit",
    "input_encoding",
    "internal_encoding",
    "short_open_tag",
    "zend.assertions",
    "zend.detect_unicode",
    "zend.multibyte",
    "zend.script_encoding",
];

/// Returns true for a setting that may differ between requests that find their scripts in one
/// OPcache.
pub fn is_request_setting(name: &str) -> bool {
    is_directory_setting(name.as_bytes()) && name != "browscap" && !COMPILED.contains(&name)
}

/// Returns true for a setting that PHP lets a directory change, other than `open_basedir`.
pub fn is_directory_setting(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    // A name is written into a line of `php.ini`.
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
    let is_known = NAMES.contains(&name) || PREFIXES.iter().any(|start| name.starts_with(start));
    is_plain && is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_compiler_are_those_of_an_opcache() {
        for (name, expected) in [
            ("memory_limit", true),
            ("session.save_path", true),
            ("auto_prepend_file", true),
            ("short_open_tag", false),
            ("zend.assertions", false),
            ("browscap", false),
            ("opcache.enable", false),
            ("open_basedir", false),
            ("disable_functions", false),
        ] {
            assert_eq!(is_request_setting(name), expected, "{name}");
        }
        assert!(COMPILED.iter().all(|name| is_directory_setting(name.as_bytes())));
    }

    #[test]
    fn fpm_gets_no_settings_of_the_administrator() {
        for name in [
            "allow_url_fopen",
            "allow_url_include",
            "disable_classes",
            "disable_functions",
            "enable_dl",
            "extension",
            "extension_dir",
            "ffi.enable",
            "file_uploads",
            "opcache.preload",
            "open_basedir",
            "sendmail_path",
            "upload_tmp_dir",
            "zend_extension",
            "session.x=1\nextension",
            "[session.",
            "",
        ] {
            assert!(!is_directory_setting(name.as_bytes()), "{name}");
        }
        for name in ["memory_limit", "upload_max_filesize", "session.gc_maxlifetime"] {
            assert!(is_directory_setting(name.as_bytes()), "{name}");
        }
    }
}
