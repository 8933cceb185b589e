//! Conditions of `.htaccess` directives that take sub-requests.

use std::fs;

use harness::Site;

#[test]
fn conditions_for_responses_know_directories_that_nothing_was_sent_from() {
    let conditions = "Header set X-Url yes \"expr=-U '/closed/a.txt'\"\n\
                      Header set X-No-Url yes \"expr=! -U '/closed/a.txt'\"\n\
                      Header always set X-Open yes \"expr=-U '/open/deep/a.txt'\"\n\
                      Header set X-File yes \"expr=-F '%{DOCUMENT_ROOT}/open/deep/a.txt'\"\n\
                      FilterDeclare small\nFilterProvider small DEFLATE \"-U \
                      '/open/other/a.txt'\"\nFilterChain small\n";
    let server = Site::new()
        .file("closed/.htaccess", "Require all denied\n")
        .file("closed/a.txt", "a")
        .file("open/.htaccess", "Options -Indexes\n")
        .file("open/deep/.htaccess", "Require all granted\n")
        .file("open/deep/a.txt", "a")
        .file("open/other/.htaccess", "Require all granted\n")
        .file("open/other/a.txt", "a")
        .file("file/.htaccess", conditions)
        .file("file/a.txt", "a".repeat(1000))
        .file("script/.htaccess", conditions)
        .file("script/a.php", "<?php echo str_repeat('a', 1000);")
        .serve();
    for path in ["/file/a.txt", "/script/a.php"] {
        let rules = server.site.root().join("closed/.htaccess");
        for (text, is_open) in [("Require all denied\n", false), ("Require all granted\n", true)] {
            fs::write(&rules, text).unwrap();
            // The server knows none of the directories: their files have changed.
            for name in ["open", "open/deep", "open/other"] {
                let rules = server.site.root().join(name).join(".htaccess");
                let text = fs::read_to_string(&rules).unwrap();
                fs::write(&rules, format!("#\n{text}")).unwrap();
            }
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            let response = server.send(request);
            let seen = ["x-url", "x-no-url", "x-open", "x-file", "content-encoding"]
                .map(|name| response.field(name).map(str::to_owned));
            let yes = || Some("yes".to_owned());
            let gzip = Some("gzip".to_owned());
            let expected = if is_open {
                [yes(), None, yes(), yes(), gzip]
            } else {
                [None, yes(), yes(), yes(), gzip]
            };
            assert_eq!(seen, expected, "{path} {is_open}");
        }
    }
}
