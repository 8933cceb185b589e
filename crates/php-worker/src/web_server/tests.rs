use super::*;

/// A directory with the file `a.php`, and the parameters that a request has afterwards.
struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.php"), "").unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        Site(directory)
    }

    /// Parameters with `$` for the directory.
    fn read(&self, given: &[(&str, &str)], fixes_path_info: bool) -> WebServerRequest {
        self.read_with(given, PathSettings { fixes_path_info, discards_path: false })
    }

    fn read_with(&self, given: &[(&str, &str)], settings: PathSettings) -> WebServerRequest {
        let mut params = Params::default();
        let root = self.0.path().to_str().unwrap();
        for (name, value) in given {
            params.push(name.as_bytes(), value.replace('$', root).as_bytes());
        }
        params.push_reserved(Reserved::FastCgi, root.as_bytes());
        WebServerRequest::read(params.as_bytes(), params.len(), settings).unwrap().unwrap()
    }

    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap().replace(self.0.path().to_str().unwrap(), "$")
    }

    /// The script, the path in the URL, and all parameters in alphabetical order.
    fn fixed(&self, given: &[(&str, &str)]) -> String {
        let request = self.read(given, true);
        let text = |bytes: Option<&[u8]>| {
            bytes.map_or("-".to_owned(), |bytes| {
                self.text(bytes.strip_suffix(b"\0").unwrap_or(bytes))
            })
        };
        let pairs = request.params.iter();
        let mut all: Vec<_> = pairs
            .map(|(name, value)| format!("{}={}", self.text(name), self.text(value)))
            .collect();
        all.sort();
        format!("{} {} {}", text(request.script()), text(request.uri_text()), all.join(" "))
    }
}

#[test]
fn a_file_is_taken_as_it_is() {
    let site = Site::new();
    let given = [("SCRIPT_FILENAME", "$/a.php"), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", "/x")];
    let expected = "$/a.php /a.php PATH_INFO=/x SCRIPT_FILENAME=$/a.php SCRIPT_NAME=/a.php";
    assert_eq!(site.fixed(&given), expected);
}

#[test]
fn the_path_after_a_file_becomes_path_info() {
    let site = Site::new();
    let given = [
        ("SCRIPT_FILENAME", "$/a.php/x/y"),
        ("SCRIPT_NAME", "/a.php/x/y"),
        ("PATH_INFO", "/a.php/x/y"),
        ("DOCUMENT_ROOT", "$/"),
    ];
    let expected = "$/a.php /a.php DOCUMENT_ROOT=$/ ORIG_PATH_INFO=/a.php/x/y \
                    ORIG_SCRIPT_FILENAME=$/a.php/x/y ORIG_SCRIPT_NAME=/a.php/x/y PATH_INFO=/x/y \
                    PATH_TRANSLATED=$/x/y SCRIPT_FILENAME=$/a.php SCRIPT_NAME=/a.php";
    assert_eq!(site.fixed(&given), expected);
}

/// CVE-2019-11043: the path after the file is longer than `PATH_INFO`.
#[test]
fn a_short_path_info_stays_as_it_is() {
    let site = Site::new();
    let given =
        [("SCRIPT_FILENAME", "$/a.php/x\ny"), ("SCRIPT_NAME", "/a.php/x\ny"), ("PATH_INFO", "")];
    let expected = "$/a.php /a.php/x\ny ORIG_SCRIPT_FILENAME=$/a.php/x\ny PATH_INFO= \
                    SCRIPT_FILENAME=$/a.php SCRIPT_NAME=/a.php/x\ny";
    assert_eq!(site.fixed(&given), expected);
}

#[test]
fn the_urls_of_apache_lead_to_files() {
    let site = Site::new();
    for scheme in ["proxy:fcgi://localhost:9000", "PROXY:balancer://cluster"] {
        let file = format!("{scheme}$/a.php/x?y=1");
        let given = [("SCRIPT_FILENAME", &*file), ("SCRIPT_NAME", "/a.php/x")];
        let expected = "$/a.php /a.php ORIG_SCRIPT_FILENAME=$/a.php/x ORIG_SCRIPT_NAME=/a.php/x \
                        PATH_INFO=/x SCRIPT_FILENAME=$/a.php SCRIPT_NAME=/a.php";
        assert_eq!(site.fixed(&given), expected);
    }
}

#[test]
fn a_script_that_does_not_exist_is_none() {
    let site = Site::new();
    let given = [("SCRIPT_FILENAME", "$/no.php"), ("SCRIPT_NAME", "/no.php")];
    assert_eq!(site.fixed(&given), "- /no.php ORIG_SCRIPT_FILENAME=$/no.php SCRIPT_NAME=/no.php");
    assert_eq!(site.fixed(&[("SCRIPT_NAME", "/a.php")]), "- - SCRIPT_NAME=/a.php");
    assert!(site.fixed(&[("SCRIPT_FILENAME", "$/sub/../a.php")]).starts_with("- "));
}

#[test]
fn a_redirect_of_mod_fastcgi_names_the_script() {
    let site = Site::new();
    let given = [
        ("SCRIPT_FILENAME", "/usr/bin/php-cgi"),
        ("SCRIPT_NAME", "/cgi"),
        ("PATH_TRANSLATED", "$/a.php"),
        ("PATH_INFO", "/a.php"),
        ("REDIRECT_URL", "/a.php"),
    ];
    let expected = "$/a.php /a.php ORIG_PATH_INFO=/a.php ORIG_PATH_TRANSLATED=$/a.php \
                    ORIG_SCRIPT_FILENAME=/usr/bin/php-cgi ORIG_SCRIPT_NAME=/cgi \
                    REDIRECT_URL=/a.php SCRIPT_FILENAME=$/a.php SCRIPT_NAME=/a.php";
    assert_eq!(site.fixed(&given), expected);
}

#[test]
fn without_the_setting_nothing_is_corrected() {
    let site = Site::new();
    let given = [("SCRIPT_FILENAME", "$/a.php/x"), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", "/x")];
    let request = site.read(&given, false);
    assert_eq!(site.text(request.script().unwrap()), "$/a.php/x");
    assert_eq!(request.uri_text(), Some(&b"/x\0"[..]));
}

#[test]
fn a_discarded_path_names_no_script() {
    let site = Site::new();
    let given = [("SCRIPT_FILENAME", "$/a.php"), ("PATH_TRANSLATED", "$/sub")];
    for (discards_path, script) in [(false, "$/sub"), (true, "$/a.php")] {
        let settings = PathSettings { fixes_path_info: false, discards_path };
        let request = site.read_with(&given, settings);
        assert_eq!(site.text(request.script().unwrap()), script);
    }
}

#[test]
fn scripts_see_the_last_parameter_first() {
    let site = Site::new();
    let request = site.read(&[("SCRIPT_FILENAME", "$/a.php"), ("A", "1"), ("B", "2")], true);
    let names: Vec<_> = request.params.iter().map(|(name, _)| site.text(name)).collect();
    assert_eq!(names, ["B", "A", "SCRIPT_FILENAME"]);
}

/// Apache encodes the path of the file, and decodes that of the script.
#[test]
fn an_encoded_path_is_taken_from_the_decoded_name_of_the_script() {
    let site = Site::new();
    let given =
        [("SCRIPT_FILENAME", "proxy:fcgi://a$/a.php/1%20+2"), ("SCRIPT_NAME", "/a.php/1 +2")];
    let expected = "$/a.php /a.php ORIG_SCRIPT_FILENAME=$/a.php/1%20+2 \
                    ORIG_SCRIPT_NAME=/a.php/1 +2 PATH_INFO=/1%20+2 SCRIPT_FILENAME=$/a.php \
                    SCRIPT_NAME=/a.php";
    assert_eq!(site.fixed(&given), expected);
}

#[test]
fn a_link_does_not_lead_out_of_the_root() {
    let (site, other) = (Site::new(), Site::new());
    let file = other.0.path().join("a.php");
    std::os::unix::fs::symlink(&file, site.0.path().join("link.php")).unwrap();
    let is_below = |name: &str| site.read(&[("SCRIPT_FILENAME", name)], true).is_below_root();
    assert!(is_below("$/a.php") && is_below("$/no.php"));
    assert!(!is_below("$/link.php") && !is_below(file.to_str().unwrap()));
}

#[test]
fn other_requests_are_left_alone() {
    let settings = PathSettings { fixes_path_info: true, discards_path: false };
    let mut params = Params::default();
    params.push(b"SCRIPT_FILENAME", b"/a.php");
    assert!(WebServerRequest::read(params.as_bytes(), 1, settings).unwrap().is_none());
    assert!(WebServerRequest::read(params.as_bytes(), 2, settings).is_err());
}
