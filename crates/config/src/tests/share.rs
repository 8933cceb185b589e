//! Shares: files of a directory.

use super::*;

fn read_share(value: Value) -> Share {
    match read_action(value).kind {
        ActionKind::Share(share) => *share,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_share_has_defaults() {
    let share = read_share(json!({"share": "/www$uri"}));
    assert_eq!(share.index, ["index.html"]);
    assert!(share.symlinks == Symlinks::OwnerMatch && share.traverse_mounts);
    let all = read_share(json!({"share": "/www$uri", "follow_symlinks": true}));
    assert_eq!(all.symlinks, Symlinks::All);
    assert!(share.types.is_none() && share.chroot.is_none());
    assert!(read_share(json!({"share": "/www$uri", "chroot": ""})).chroot.is_none());
    assert!(share.scripts.is_none() && share.fallback.is_none());
}

#[test]
fn a_share_takes_lists_types_limits_and_a_fallback() {
    let share = read_share(json!({
        "share": ["/a$uri", "/b$uri"],
        "index": ["index.php", "index.html"],
        "types": ["image/*", "!image/svg+xml"],
        "chroot": "/www/$host",
        "follow_symlinks": false,
        "traverse_mounts": false,
        "scripts": "applications/two/direct",
        "fallback": {"share": "/c$uri", "fallback": {"pass": "applications/two/front"}},
    }));
    assert_eq!((share.paths.len(), share.index.len()), (2, 2));
    assert!(share.symlinks == Symlinks::None && !share.traverse_mounts);
    assert!(share.types.expect("types").matches(b"image/png"));
    let Some(Pass::Fixed(Target::Application { target: Some(name), .. })) = share.scripts else {
        panic!("{:?}", share.scripts);
    };
    assert_eq!(name, "direct");
    let Some(ActionKind::Share(fallback)) = share.fallback.map(|action| action.kind) else {
        panic!("a share")
    };
    assert!(matches!(fallback.fallback, Some(Action { kind: ActionKind::Pass(_), .. })));
}

#[test]
fn broken_shares_are_refused() {
    for (share, message) in [
        (json!({"share": []}), "must have at least one element"),
        (json!({"share": ""}), "must not be empty"),
        (json!({"share": 1}), "must be a string or an array of strings, but is the number 1"),
        (
            json!({"share": ["/x", "$$uri"]}),
            "/routes/0/action/share/1: element 1 has a \"$\" without",
        ),
        (json!({"share": "/x\0y"}), "must not contain a null character"),
        (json!({"share": "/x", "index": {}}), "\"index\" must be a string or an array of strings"),
        (json!({"share": "/x", "index": ["a", "$blah"]}), "must not contain \"$\""),
        (json!({"share": "/x", "index": "../x"}), "must not lead out of the directory"),
        (
            json!({"share": "/x", "follow_symlinks": 1}),
            "must be true or false, but is the number 1",
        ),
        (
            json!({"share": "/x", "prefix": "shop"}),
            "/routes/0/action/prefix: \"prefix\" must be a path that starts with \"/\"",
        ),
        (json!({"share": "/x", "prefix": "/"}), "leave it out"),
        (json!({"share": "/x", "prefix": "/$host"}), "without variables"),
        (json!({"share": "/x", "fallback": {}}), "/routes/0/action/fallback: one of"),
        (json!({"share": "/x", "scripts": "routes"}), "\"scripts\" must name an application"),
        (json!({"share": "/x", "scripts": "applications/two/front"}), "without \"script\""),
    ] {
        let line = refusal(action(share));
        assert!(line.contains(message), "{line}");
    }
    // As in Unit, an empty string disables the index.
    assert!(read_share(json!({"share": "/x", "index": ""})).index.is_empty());
}
