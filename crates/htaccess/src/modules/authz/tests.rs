use super::*;
use crate::modules::testing::{Stub, apply_line, now, record};
use crate::modules::{access_compat, auth_basic, authn_file, authz_groupfile};
use crate::options::Options;

fn compiled(lines: &[&str]) -> Result<DirConfig, String> {
    let all = [
        DIRECTIVES,
        access_compat::DIRECTIVES,
        auth_basic::DIRECTIVES,
        authn_file::DIRECTIVES,
        authz_groupfile::DIRECTIVES,
    ];
    let mut config = DirConfig::default();
    let mut methods: Option<Methods> = None;
    for line in lines {
        if let Some(names) = line.strip_prefix("<Limit ") {
            let names = names.trim_end_matches('>').split(' ').map(|name| name.as_bytes().to_vec());
            methods = Some(Methods { names: names.collect(), is_except: false });
            continue;
        }
        if *line == "</Limit>" {
            methods = None;
            continue;
        }
        let place = Place {
            file: "/site/.htaccess",
            line: 1,
            directory: b"/site/",
            section: None,
            methods: methods.as_ref(),
            options: Options::ANY,
        };
        // The parser divides `<RequireAll>` into a name and the rest.
        let line = match line.strip_prefix("<").and_then(|rest| rest.find('>').map(|end| end + 1)) {
            Some(end) if !line.starts_with("</") => format!("{} {}", &line[..end], &line[end..]),
            _ => line.to_string(),
        };
        let name = line.split(' ').next().unwrap().to_ascii_lowercase();
        let module = all
            .iter()
            .find(|module| module.iter().any(|each| each.name.to_ascii_lowercase() == name));
        apply_line(module.unwrap_or_else(|| panic!("{name}")), &mut config, &place, &line)?;
    }
    Ok(config)
}

const BASIC: [&str; 3] = ["AuthType Basic", "AuthName Realm", "AuthUserFile /passwords"];

fn status_of(config: DirConfig, method: &str, credentials: Option<&str>) -> (u16, bool) {
    let mut record = record(config);
    record.method = method.into();
    record.env.set("OK", "1");
    if let Some(credentials) = credentials {
        let encoded = howdah_text::base64::encode(credentials.as_bytes());
        record.headers_in.set("Authorization", format!("Basic {encoded}"));
    }
    let mut stub = Stub::default();
    stub.hosts.push(b"www.example.com".to_vec());
    stub.files.insert(b"/passwords".to_vec(), b"# users\nann:one:x\nbob:two\n".to_vec());
    stub.files.insert(b"/groups".to_vec(), b"staff: ann\nguests: bob cid\n".to_vec());
    let result = now(authorize(&mut record, &stub, &stub));
    (result.err().unwrap_or(200), record.err_headers_out.get(b"WWW-Authenticate").is_some())
}

fn status(lines: &[&str], credentials: Option<&str>) -> (u16, bool) {
    status_of(compiled(lines).unwrap(), "GET", credentials)
}

#[test]
fn requirements_without_a_user_answer_200_or_403() {
    for (lines, expected) in [
        (vec![], 200),
        (vec!["Require all granted"], 200),
        (vec!["Require all denied"], 403),
        (vec!["Require all denied", "Require ip 127"], 200),
        (vec!["Require ip 10.0.0.0/8 ::1"], 403),
        (vec!["Require local"], 200),
        (vec!["Require env NO OK"], 200),
        (vec!["Require method POST"], 403),
        (vec!["Require method HEAD"], 200),
        (vec!["Require host example.com"], 200),
        (vec!["Require host example.org # www"], 403),
        (vec!["Require expr true"], 200),
        (vec!["Require expr \"false\""], 403),
        (
            vec![
                "<RequireAll>",
                "Require all granted",
                "Require not ip 127.0.0.1",
                "</RequireAll>",
            ],
            403,
        ),
        (vec!["<RequireAll>", "Require all granted", "Require not ip 10", "</RequireAll>"], 200),
        (vec!["<RequireAll>", "Require not ip 10", "</RequireAll>"], 403),
        (
            vec![
                "<RequireAll>",
                "Require all granted",
                "<RequireNone>",
                "Require env OK",
                "</RequireNone>",
                "</RequireAll>",
            ],
            403,
        ),
        (
            vec![
                "<RequireAny>",
                "Require env NO",
                "<RequireAll>",
                "Require env OK",
                "Require local",
                "</RequireAll>",
                "</RequireAny>",
            ],
            200,
        ),
        (vec!["<Limit POST>", "Require all denied", "</Limit>"], 200),
        (vec!["<Limit GET>", "Require all denied", "</Limit>"], 403),
        (vec!["Order allow,deny", "Require all granted"], 403),
        (vec!["Order allow,deny", "Satisfy any", "Require all granted"], 200),
        (vec!["Satisfy any", "Require all denied"], 200),
        (vec!["AuthType Basic"], 500),
        (vec!["AuthType None", "Require all granted"], 200),
        (vec!["Require valid-user"], 500),
        (vec!["AuthType Basic", "Require valid-user"], 500),
        (vec!["AuthType Digest", "AuthName x", "Require valid-user"], 500),
    ] {
        assert_eq!(status(&lines, None).0, expected, "{lines:?}");
    }
}

#[test]
fn users_are_asked_checked_and_required() {
    let missing = ["AuthType Basic", "AuthName x", "AuthUserFile /none", "Require valid-user"];
    assert_eq!(status(&missing, None), (401, true));
    assert_eq!(status(&missing, Some("ann:one")), (500, false));
    for (lines, credentials, expected) in [
        (vec!["Require valid-user"], None, (401, true)),
        (vec!["Require valid-user"], Some("ann:one"), (200, false)),
        (vec!["Require valid-user"], Some("ann:two"), (401, true)),
        (vec!["Require valid-user"], Some("eve:one"), (401, true)),
        (vec!["Require user bob cid"], Some("ann:one"), (401, true)),
        (vec!["Require user bob ann"], Some("ann:one"), (200, false)),
        (vec!["Require user bob", "AuthzSendForbiddenOnFailure On"], Some("ann:one"), (403, false)),
        (vec!["Require valid-user", "Require ip 127.0.0.1"], None, (200, false)),
        (
            vec!["<RequireAll>", "Require valid-user", "Require ip 10", "</RequireAll>"],
            None,
            (403, false),
        ),
        (vec!["AuthGroupFile /groups", "Require group STAFF"], Some("ann:one"), (200, false)),
        (vec!["AuthGroupFile /groups", "Require group staff"], Some("bob:two"), (401, true)),
        (vec!["Require group staff"], Some("bob:two"), (401, true)),
        (vec!["Require valid-user", "Order allow,deny", "Satisfy any"], None, (401, true)),
        (vec!["AuthBasicAuthoritative Off", "Require valid-user"], Some("eve:one"), (500, false)),
        (vec!["AuthBasicAuthoritative Off", "Require valid-user"], Some("ann:two"), (401, true)),
    ] {
        let lines: Vec<&str> = BASIC.iter().chain(&lines).copied().collect();
        assert_eq!(status(&lines, credentials), expected, "{lines:?}");
    }
}

#[test]
fn errors_are_those_of_apache() {
    for (lines, expected) in [
        (vec!["Require"], "Unknown Authz provider: "),
        (vec!["Require nobody"], "Unknown Authz provider: nobody"),
        (vec!["Require all"], "Argument for 'Require all' must be 'granted' or 'denied'"),
        (vec!["Require ip"], "'require ip' requires an argument"),
        (vec!["Require ip x"], "ip address 'x' appears to be invalid"),
        (
            vec!["Require ip 300.1.1.1"],
            "ip address '300.1.1.1' appears to be invalid: The specified IP address is invalid.",
        ),
        (vec!["Require method get"], "Invalid Method 'get'"),
        (
            vec!["Require not ip 10"],
            "negative Require directive has no effect in <RequireAny> directive",
        ),
        (
            vec!["<RequireNone>", "Require ip 10", "</RequireNone>"],
            "<RequireNone> directive has no effect in <RequireAny> directive",
        ),
        (
            vec!["<RequireAll>", "</RequireAll>"],
            "<RequireAll> directive contains no authorization directives",
        ),
        (vec!["AuthMerging Xor"], "AuthMerging must be one of: Off | And | Or"),
        (vec!["AuthBasicProvider ldap"], "Unknown Authn provider: ldap"),
    ] {
        assert_eq!(compiled(&lines).unwrap_err(), expected, "{lines:?}");
    }
}

#[test]
fn a_child_replaces_requirements_unless_they_are_merged() {
    let parent = compiled(&["Require all denied"]).unwrap();
    for (lines, expected) in [
        (vec![], 403),
        (vec!["Require all granted"], 200),
        (vec!["AuthMerging And", "Require all granted"], 403),
        (vec!["AuthMerging Or", "Require all granted"], 200),
        (vec!["AuthMerging Off", "Require all granted"], 200),
        (vec!["AuthMerging And"], 403),
        (vec!["AuthMerging Off"], 200),
    ] {
        let mut child = compiled(&lines).unwrap();
        child = parent.merged(&child);
        assert_eq!(status_of(child, "GET", None).0, expected, "{lines:?}");
    }
}
