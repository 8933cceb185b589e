//! Directories of uploads, which run no scripts: the effect of a file of rules in them on scripts
//! elsewhere.

use std::fs;

use harness::Site;

#[test]
fn rules_in_a_directory_of_uploads_make_nobody_a_user_of_the_site() {
    const SEES: &str = "<?php foreach ($_SERVER as $name => $value)
        if (preg_match('/USER|AUTH|OWN/', $name) && $name != 'USER') echo \"$name=$value \";";
    let uploads = "wp-content/uploads";
    let rules = "SetEnv REMOTE_USER admin\nSetEnvIf Request_Method . AUTH_TYPE=Basic\n\
                 RewriteEngine On\nRewriteRule ^go$ /index.php [E=PHP_AUTH_USER:admin]\n\
                 RewriteRule ^ - [E=LOGON_USER:admin]\nRequestHeader set X-Remote-User admin\n\
                 DirectoryIndex /index.php\nFallbackResource /index.php\nErrorDocument 403 \
                 /index.php\n";
    let server = Site::new()
        .file("wp-load.php", "")
        .file(".htaccess", "SetEnv OWN 1\n")
        .file("index.php", SEES)
        .file(&format!("{uploads}/.htaccess"), rules)
        .file(
            &format!("{uploads}/x/.htaccess"),
            "SetEnv REMOTE_USER other\nRewriteOptions Inherit\n",
        )
        .file(
            &format!("{uploads}/y/.htaccess"),
            "FallbackResource disabled\nErrorDocument 404 /index.php\n",
        )
        .serve();
    for path in ["", "none", "go", "y/none", "x/", "x/none", "x/go"] {
        let response = server.get(&format!("/{uploads}/{path}"));
        assert_eq!(response.status, if path == "y/none" { 404 } else { 200 }, "{path}");
        assert_eq!(response.text(), "OWN=1 ", "{path}");
    }
    // The same file in a directory that may run scripts has the variables that it has with Apache.
    let elsewhere = server.site.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join(".htaccess"), rules).unwrap();
    let seen = server.get("/elsewhere/").text();
    assert!(seen.contains("REMOTE_USER=admin") && seen.contains("OWN=1"), "{seen}");
}
