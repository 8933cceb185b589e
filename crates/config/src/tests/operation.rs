//! Log, compression, isolation: settings that do not affect routing.

use super::*;

#[test]
fn an_access_log_is_a_file_or_has_a_format() {
    let log = |value: Value| read(json!({"access_log": value})).access_log.expect("a log");
    let plain = log(json!("/var/log/access.log"));
    let LogFormat::Text(combined) = &plain.format else { panic!("text") };
    assert_eq!(combined.parts().len(), 14);
    let custom = log(json!({"path": "/x", "format": {"uri": "$uri", "a": "b"}, "if": "$arg_log"}));
    let LogFormat::Json(members) = &custom.format else { panic!("JSON") };
    assert_eq!(members[0].0, "uri");
    assert!(custom.condition.is_some());
    for (value, message) in [
        (json!(""), "must not be empty"),
        (json!({"format": "$uri"}), "/access_log: \"path\" is missing"),
        (json!({"path": ""}), "/access_log/path: "),
        (
            json!({"path": "/x", "format": "$remote_add"}),
            "Unknown variable \"$remote_add\"; did you mean \"$remote_addr\"?",
        ),
        (json!({"path": "/x", "format": {"a": 1}}), "/access_log/format/a: "),
        (json!({"path": "/x", "format": {"": "a"}}), "must have a name"),
        (json!({"path": "/x", "if": "$arg_"}), "/access_log/if: Unknown variable"),
        (json!(1), "must be a file name or an object"),
    ] {
        let line = refusal(json!({"access_log": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn compression_has_types_and_compressors() {
    let document = |value: Value| json!({"settings": {"http": {"compression": value}}});
    let read_compression =
        |value| read(document(value)).settings.http.compression.expect("compression");
    let several = read_compression(json!({
        "types": ["text/*"],
        "compressors": [{"encoding": "br", "level": 5, "min_length": 100}, {"encoding": "gzip"}],
    }));
    assert!(several.types.expect("types").matches(b"text/css"));
    assert_eq!(
        several.compressors,
        [
            Compressor { encoding: Encoding::Brotli, level: Some(5), min_length: 100 },
            Compressor { encoding: Encoding::Gzip, level: None, min_length: 0 },
        ]
    );
    assert_eq!(
        read_compression(json!({"compressors": {"encoding": "zstd", "level": -7}}))
            .compressors
            .len(),
        1
    );
    assert!(several.enabled && !read_compression(json!({"enabled": false})).enabled);
    for (value, message) in [
        (json!({}), "\"compressors\" is missing"),
        (json!({"compressors": {}}), "\"encoding\" is missing"),
        (json!({"compressors": "gzip"}), "must be an object or an array of objects"),
        (
            json!({"compressors": {"encoding": "lzma"}}),
            "must be \"gzip\", \"br\", \"zstd\" or \"deflate\"",
        ),
        (
            json!({"compressors": {"encoding": "gzip", "level": 10}}),
            "must be between -1 and 9, but is 10",
        ),
        (json!({"compressors": [{"encoding": "gzip", "min_length": -1}]}), "must be 0 or more"),
    ] {
        let line = refusal(document(value));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn isolation_is_read() {
    let isolation = read_application(json!({"type": "php", "root": "/", "isolation": {
        "namespaces": {"pid": true, "credential": true}, "rootfs": "/srv/root",
        "automount": {"procfs": false}, "new_privs": false, "cgroup": {"path": "site/a"},
        "uidmap": [{"container": 0, "host": 1000, "size": 1}], "gidmap": [],
    }}))
    .isolation;
    assert!(isolation.namespaces.pid && !isolation.namespaces.network);
    assert!(isolation.automount.tmpfs && !isolation.automount.procfs);
    assert_eq!(isolation.uidmap, [IdRange { container: 0, host: 1000, size: 1 }]);
    assert_eq!(isolation.cgroup, Some(PathBuf::from("site/a")));
    for (value, message) in [
        (json!({"namespaces": {"user": true}}), "unknown key \"user\""),
        (json!({"cgroup": {"path": "a/../b"}}), "without \"..\""),
        (json!({"cgroup": {}}), "\"path\" is missing"),
        (json!({"uidmap": [{"container": 0, "host": 0}]}), "/uidmap/0: \"size\" is missing"),
        (
            json!({"uidmap": [{"container": 0, "host": 4_294_967_295_u32, "size": 2}]}),
            "must not go beyond",
        ),
        (json!({"uidmap": [{"container": -1, "host": 0, "size": 1}]}), "must be between 0"),
    ] {
        let line = refused_application(json!({"type": "php", "root": "/", "isolation": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_sandbox_is_read() {
    let read = |value: serde_json::Value| {
        let isolation = json!({"sandbox": value});
        read_application(json!({"type": "php", "root": "/", "isolation": isolation}))
            .isolation
            .sandbox
    };
    let by_default = read_application(json!({"type": "php", "root": "/"})).isolation.sandbox;
    assert_eq!(by_default, Sandbox::Processes);
    assert_eq!(read(json!(false)), Sandbox::Off);
    assert_eq!(read(json!(true)), Sandbox::Files(SandboxFiles::default()));
    let named = read(json!({"read": "/a//b/", "write": ["/c", "/d"], "required": false}));
    let expected = SandboxFiles {
        read: vec!["/a/b".into()],
        write: vec!["/c".into(), "/d".into()],
        execute: Vec::new(),
        required: false,
    };
    assert_eq!(named, Sandbox::Files(expected));
    for (value, message) in [
        (json!("on"), "must be true, false or an object"),
        (json!({"read": "relative"}), "starts with \"/\""),
        (json!({"write": ["/a/../b"]}), "without \"..\""),
        (json!({"writes": []}), "unknown key \"writes\""),
        (json!({"execute": [""]}), "must not be empty"),
    ] {
        let isolation = json!({"sandbox": value});
        let line = refused_application(json!({"type": "php", "root": "/", "isolation": isolation}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn what_no_version_has_is_refused_by_name() {
    for (document, path) in [
        (json!({"settings": {"js_module": "x"}}), "/settings/js_module"),
        (json!({"settings": {"telemetry": {}}}), "/settings/telemetry"),
        (json!({"settings": {"http": {"websocket": {}}}}), "/settings/http/websocket"),
    ] {
        let error = Config::from_value(document).expect_err("refused");
        assert_eq!((error.kind(), error.path()), (ErrorKind::Unavailable, path));
    }
}
