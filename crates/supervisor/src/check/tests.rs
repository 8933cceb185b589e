use howdah_wire::messages::{Isolation, ResourceLimits, Sandbox};

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
    starts.add(&settings, &site("a", None), &known);
    let find = |starts: &Starts, spec| starts.find(&settings, &spec).unwrap();
    // The file of the first site may be closed to the second one.
    let second = find(&starts, site("b", None));
    assert!(second.start.is_known);
    assert_eq!(second.start.files, ["/srv/a/php.ini"]);
    let of_other = find(&starts, site("b", Some("other")));
    assert_eq!(of_other.start.files, files);
    starts.add(&settings, &site("b", Some("other")), &of_other.start);
    assert_eq!(find(&starts, site("c", Some("other"))).start.files, [""; 0]);
}

#[test]
fn an_unknown_start_is_not_kept() {
    let mut starts = Starts::default();
    let settings = start_key(&site("a", None)).unwrap();
    starts.add(&settings, &site("a", None), &KnownStart::default());
    assert!(starts.find(&settings, &site("b", None)).is_none());
}

#[test]
fn a_limit_of_processes_is_none_of_the_kernel_beside_an_application_without_one() {
    let limited = |name: &str, user: Option<&str>| {
        let mut spec = site(name, user);
        let limits = ResourceLimits { processes: Some(20), ..ResourceLimits::default() };
        spec.isolation.limits = Some(limits);
        spec
    };
    let mut own_namespace = limited("e", Some("x"));
    own_namespace.isolation.user_namespace = true;
    let all = [
        limited("a", Some("x")),
        site("b", Some("x")),
        site("c", Some("x")),
        limited("d", Some("y")),
        own_namespace,
        limited("f", None),
        site("g", None),
    ];
    let found = without_limit(&all, |_| true);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a"]);
    let problem = found[0].1.to_string();
    assert!(problem.starts_with("isolation/limits/processes: ") && problem.contains("\"b\""));
    assert!(without_limit(&all, |_| false).is_empty());
}
