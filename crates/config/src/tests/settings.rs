//! Settings of the whole server.

use super::*;

#[test]
fn settings_have_the_defaults_of_unit() {
    let http = read(json!({})).settings.http;
    assert_eq!(http.idle_timeout, Duration::from_secs(180));
    assert_eq!((http.max_body_size, http.max_head_size()), (8 << 20, 32 << 10));
}

#[test]
fn requests_are_read_strictly_unless_the_document_or_the_command_line_says_otherwise() {
    let strict = |document: &str, defaults| {
        let config = crate::parse_with(document.as_bytes(), &defaults).unwrap();
        config.settings.http.strict_requests
    };
    let silent = ["{}", r#"{"settings": {}}"#, r#"{"settings": {"http": {"send_timeout": 1}}}"#];
    for document in silent {
        assert!(strict(document, Defaults::default()), "{document}");
        assert!(!strict(document, Defaults::of_unit()), "{document}");
        assert!(crate::parse(document.as_bytes()).unwrap().settings.http.strict_requests);
    }
    for said in [true, false] {
        let document = format!(r#"{{"settings": {{"http": {{"strict_requests": {said}}}}}}}"#);
        for defaults in [Defaults::default(), Defaults::of_unit()] {
            assert_eq!(strict(&document, defaults), said);
        }
    }
}

#[test]
fn settings_are_read() {
    let config = read(json!({"settings": {"listen_threads": 2, "http": {
        "header_read_timeout": 1, "body_read_timeout": 2, "send_timeout": 3, "idle_timeout": 0,
        "large_header_buffer_size": 4096, "large_header_buffers": 2, "max_header_fields": 50,
        "min_rate": 0, "min_rate_grace": 5,
        "body_buffer_size": 0, "max_body_size": 0, "body_temp_path": "/tmp",
        "response_temp_size": 1,
        "discard_unsafe_fields": false, "strict_requests": false, "log_route": true,
        "server_version": false, "chunked_transform": true,
        "static": {"mime_types": {"text/x-code": [".c", ".h"], "text/plain": "README"}},
    }}}));
    let http = config.settings.http;
    assert_eq!(http.send_timeout, Duration::from_secs(3));
    assert_eq!((http.max_body_size, http.max_head_size()), (0, 8192));
    assert_eq!((http.max_header_fields, http.min_rate, http.response_temp_size), (50, 0, 1));
    assert_eq!(http.min_rate_grace, Duration::from_secs(5));
    assert!(
        !http.discard_unsafe_fields
            && !http.strict_requests
            && http.log_route
            && !http.server_version
            && http.chunked_transform
    );
    assert_eq!(http.mime_types[1], ("text/plain".to_owned(), vec!["README".to_owned()]));
    assert!(http.removed_types.is_empty() && http.builtin_types);
    let types = json!({"mime_types": {"a/b": ".b", "text/html": null}, "builtin_types": false});
    let http = read(json!({"settings": {"http": {"static": types}}})).settings.http;
    assert_eq!(
        (http.mime_types.len(), http.removed_types, http.builtin_types),
        (1, vec!["text/html".to_owned()], false)
    );
}

#[test]
fn broken_settings_are_refused() {
    for (http, message) in [
        (json!({"idle_timeout": -1}), "must be between 0 and 2147483, but is -1"),
        (json!({"idle_timeout": 1.5}), "must be an integer, but is the number 1.5"),
        (json!({"large_header_buffer_size": 0}), "must be between 1 and"),
        (json!({"max_body_size": -1}), "must be 0 or more, but is -1"),
        (
            json!({"static": {"mime_types": {"a/b": ".x", "a/c": [".X"]}}}),
            "names an extension that \"a/b\" has already",
        ),
        (json!({"static": {"mime_types": {"a/b": ""}}}), "must not be empty"),
        (json!({"header_buffer_size": 1}), "unknown key \"header_buffer_size\"; did you mean \""),
    ] {
        let line = refusal(json!({"settings": {"http": http}}));
        assert!(line.contains(message), "{line}");
    }
}
