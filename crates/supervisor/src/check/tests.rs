use howdah_wire::messages::{Isolation, Sandbox};

use super::*;

fn site(name: &str, user: Option<&str>) -> ApplicationSpec {
    let directory = format!("/srv/{name}");
    let sandbox =
        Sandbox { write: vec![directory.clone(), "/var/tmp".to_owned()], ..Sandbox::default() };
    ApplicationSpec {
        user: user.map(str::to_owned),
        roots: vec![("root".to_owned(), format!("{directory}/public"))],
        isolation: Isolation { sandbox: Some(sandbox), ..Isolation::default() },
        ..ApplicationSpec::new(name)
    }
}

#[test]
fn files_of_php_are_opened_once_for_sites_of_one_user() {
    let mut starts = Starts::default();
    let settings = start_key(&site("a", None)).unwrap();
    assert_eq!(settings, start_key(&site("b", Some("other"))).unwrap());
    let files = ["/usr/lib/php.so", "/srv/a/php.ini"].map(str::to_owned).to_vec();
    let known = KnownStart { files: files.clone(), is_known: true, ..KnownStart::default() };
    starts.add(settings.clone(), &site("a", None), known);
    // The file of the first site may be closed to the second one.
    let second = starts.find(&settings, &site("b", None));
    assert!(second.is_known);
    assert_eq!(second.files, ["/srv/a/php.ini"]);
    let of_other = starts.find(&settings, &site("b", Some("other")));
    assert_eq!(of_other.files, files);
    starts.add(settings.clone(), &site("b", Some("other")), of_other);
    assert_eq!(starts.find(&settings, &site("c", Some("other"))).files, [""; 0]);
}

#[test]
fn an_unknown_start_is_not_kept() {
    let mut starts = Starts::default();
    let settings = start_key(&site("a", None)).unwrap();
    starts.add(settings.clone(), &site("a", None), KnownStart::default());
    assert!(!starts.find(&settings, &site("b", None)).is_known);
}
