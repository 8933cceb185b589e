use crate::support::lossy;
use crate::testing::Site;

#[test]
fn directives_of_a_directory_without_scripts_make_nobody_somebody_elsewhere() {
    let site = Site::new(&[]);
    let everything = "SetEnv REMOTE_USER env\nSetEnvIf Request_Method . AUTH_TYPE=Fake BY=uploads\n\
        SetEnv APP_ENV uploads\nRequestHeader set X-User field\nRequestHeader unset User-Agent\n\
        <FilesMatch \"(?<MATCHED>.*)\">\nSetEnv SECTION 1\n</FilesMatch>\n\
        RewriteEngine On\nRewriteRule ^go$ /app/a.php [E=PHP_AUTH_USER:rule]\nRewriteRule ^ - \
        [E=RULED:1]\nRewriteRule ^twice$ again [E=TWICE:1]\nRewriteRule ^again$ /app/a.php\n\
        DirectoryIndex /app/a.php\nFallbackResource /app/a.php\nErrorDocument 403 /app/a.php\n";
    site.write("app/.htaccess", "SetEnv APP_ENV own\nSetEnvIf X-User (.*) BY=app-$1\n");
    site.write("app/a.php", "");
    let requests = [
        ("", 200),
        ("?query", 200),
        ("none", 200),
        ("go", 200),
        ("twice", 200),
        ("a.php", 403),
        ("below/", 200),
    ];
    for directory in ["elsewhere", "uploads"] {
        site.write(&format!("{directory}/.htaccess"), everything);
        site.write(&format!("{directory}/a.php"), "");
        site.write(&format!("{directory}/below/a.txt"), "");
        let is_closed = directory == "uploads";
        for (name, status) in requests {
            if !is_closed && status == 403 {
                continue;
            }
            let request = format!("GET /{directory}/{name}");
            let answer = site.send(&request, &[("X-User", "client"), ("User-Agent", "browser")]);
            assert_eq!(answer.summary(&site), format!("{status} script /app/a.php"), "{request}");
            let record = &answer.0.record;
            let user = record.headers_in.get(b"X-User").unwrap();
            let names = answer.script().variables.iter().map(|(name, _)| lossy(name));
            let foreign = |name: &String| {
                let ends = [
                    "REMOTE_USER",
                    "AUTH_TYPE",
                    "PHP_AUTH_USER",
                    "RULED",
                    "MATCHED",
                    "SECTION",
                    "TWICE",
                ];
                ends.iter().any(|end| name.ends_with(end)) || name == "REDIRECT_BY"
            };
            let foreign: Vec<String> = names.filter(foreign).collect();
            assert_eq!(answer.variable("APP_ENV").as_deref(), Some("own"), "{request}");
            if is_closed {
                assert_eq!(foreign, [] as [&str; 0], "{request}");
                assert_eq!(user, b"client", "{request}");
                assert!(record.headers_in.get(b"User-Agent").is_some(), "{request}");
                assert_eq!(answer.variable("BY").as_deref(), Some("app-client"), "{request}");
                let expected = (status == 403).then_some("403");
                assert_eq!(
                    answer.variable("REDIRECT_STATUS").as_deref().filter(|s| *s != "200"),
                    expected
                );
            } else {
                assert_ne!(foreign, [] as [&str; 0], "{request}");
            }
        }
    }
}

#[test]
fn a_user_of_a_directory_without_scripts_is_none_elsewhere() {
    let site = Site::new(&[]);
    site.write("uploads/passwords", "me:secret\n");
    let passwords = format!("{}/uploads/passwords", site.root());
    let text = format!(
        "AuthType Basic\nAuthName a\nAuthUserFile {passwords}\nRequire valid-user\nDirectoryIndex \
         /a.php\nAuthBasicFake other\nRewriteEngine On\nRewriteRule ^go$ /a.php\nErrorDocument \
         404 /a.php\n"
    );
    site.write("uploads/.htaccess", &text);
    site.write("a.php", "");
    let sent = "Basic bWU6c2VjcmV0";
    for name in ["", "go", "none"] {
        let answer = site.send(&format!("GET /uploads/{name}"), &[("Authorization", sent)]);
        assert_eq!(answer.script().name, b"/a.php");
        for variable in ["REMOTE_USER", "REDIRECT_REMOTE_USER", "AUTH_TYPE", "REDIRECT_AUTH_TYPE"] {
            assert_eq!(answer.variable(variable), None, "{name}: {variable}");
        }
        let record = &answer.0.record;
        assert_eq!((record.user.as_deref(), record.auth_type.as_deref()), (None, None), "{name}");
        assert_eq!(record.headers_in.get(b"Authorization"), Some(sent.as_bytes()), "{name}");
    }
}

#[test]
fn variables_stay_within_a_directory_without_scripts() {
    let site = Site::new(&[]);
    site.write(
        "uploads/.htaccess",
        "RewriteEngine On\nRewriteRule ^a\\.jpg$ a.webp [E=webp:1]\n\
         Header set X-Webp %{REDIRECT_webp}e env=REDIRECT_webp\nDirectoryIndex a.webp\n\
         SetEnvIf Request_Method . METHOD=1\nHeader set X-Method 1 env=METHOD\n",
    );
    site.write("uploads/a.webp", "");
    assert_eq!(site.get("/uploads/a.jpg").header("X-Webp").as_deref(), Some("1"));
    assert_eq!(site.get("/uploads/").header("X-Method").as_deref(), Some("1"));
}
