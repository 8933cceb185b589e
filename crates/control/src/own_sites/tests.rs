//! Tests of the questions of a site's user.

use howdah_questions::{
    ApplicationStatus, JobOrder, PhpStatus, RequestFilter, SiteTraffic, UpstreamStatus,
};
use serde_json::json;

use super::*;

const ANNA: u32 = 1001;
const BEN: u32 = 1002;

/// Anna has the site "blog" and a part of a shared application, Ben the others; no user is named for
/// "plain".
fn document() -> Value {
    json!({
        "applications": {
            "blog": {"type": "php", "user": "anna"},
            "shared:wp:1": {"type": "php", "user": "anna"},
            "shop": {"type": "php", "user": "ben"},
            "news": {"type": "php", "user": "ben"},
            "plain": {"type": "php"},
        },
        "routes": {
            "blog": [{"action": {"pass": "applications/blog"}}],
            "wiki": [{"action": {"pass": "applications/shared:wp:1/index"}}],
            "news": [{"action": {"pass": "applications/shared:wp:1"}}],
            "api": [{"action": {"pass": "applications/shared:wp:1"}}],
        },
        "upstreams": {"api": {}},
    })
}

fn anna() -> OwnSites {
    let users = format!("{ANNA}\tanna\n{BEN}\tben\n77\tnobody-here\nx\tplain\nmalformed\n");
    let mut all = OwnSites::by_user(&document(), &users);
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), [ANNA, BEN]);
    all.remove(&ANNA).unwrap()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_site_belongs_to_the_user_that_its_application_names() {
    let own = anna();
    assert_eq!(own.applications, set(&["blog", "shared:wp:1"]));
    // Requests of the site "news" have the name of Ben's application, those of "api" the name of an
    // upstream.
    assert_eq!(own.names, set(&["blog", "shared:wp:1", "wiki"]));
    assert!(OwnSites::by_user(&document(), "").is_empty());
    assert!(OwnSites::by_user(&json!(7), "1001\tanna").is_empty());
}

#[test]
fn a_user_with_two_names_is_one() {
    let users = format!("{ANNA}\tanna\n{ANNA}\tben\n");
    let all = OwnSites::by_user(&document(), &users);
    assert_eq!(all.len(), 1);
    assert!(all[&ANNA].applications.contains("shop") && all[&ANNA].applications.contains("blog"));
}

#[test]
fn questions_about_other_sites_and_changes_are_refused() {
    let own = anna();
    let ask = |method: &str, target: &str, body: &str| {
        own.question(method.as_bytes(), target.as_bytes(), body.as_bytes())
    };
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/config"),
        ("GET", "/config/applications/blog"),
        ("GET", "/certificates"),
        ("GET", "/usage"),
        ("GET", "/pools"),
        ("GET", "/control/compiled"),
        ("GET", "/control/applications/blog/tune"),
        ("GET", "/control/applications/blog/restart"),
        ("POST", "/control/applications/blog/restart"),
        ("POST", "/control/reload"),
        ("POST", "/control/upgrade"),
        ("GET", "/control/caches/*/top"),
        ("DELETE", "/config"),
        ("DELETE", "/certificates/a"),
    ] {
        let refused = ask(method, target, "");
        assert_eq!(refused, Err(Refusal::ForAdministrators), "{method} {target}");
    }
    for (method, target) in [
        ("GET", "/pools/shop"),
        ("GET", "/pools/none"),
        ("GET", "/pools/wiki"),
        ("GET", "/jobs/shop"),
        ("GET", "/jobs/shop/queue/log"),
        ("POST", "/control/applications/shop/jobs/queue/run"),
        ("GET", "/requests?site=shop"),
        ("GET", "/requests?site=blog&site=shop"),
        ("GET", "/requests?site=news"),
        ("GET", "/requests?site="),
        ("GET", "/slow/shop"),
        ("GET", "/slow/news"),
        ("GET", "/slow/none"),
        ("POST", "/control/applications/shop/profile"),
    ] {
        let refused = ask(method, target, "");
        assert!(matches!(refused, Err(Refusal::NoSuchOwnSite { .. })), "{method} {target}");
    }
    assert!(ask("PUT", "/config", "{}").is_err());
    assert!(ask("POST", "/status", "").is_err());
    let long = ask("POST", "/control/applications/blog/profile", r#"{"seconds": 61}"#);
    assert!(matches!(long, Err(Refusal::TooMuchAtOnce { .. })));
}

#[test]
fn questions_about_own_sites_are_limited_to_them() {
    let own = anna();
    let ask = |method: &str, target: &str| {
        own.question(method.as_bytes(), target.as_bytes(), b"").map(|(question, _)| question)
    };
    assert_eq!(ask("GET", "/status"), Ok(Question::Status));
    let pools = Question::Pools { application: Some("blog".to_owned()) };
    assert_eq!(ask("GET", "/pools/blog"), Ok(pools));
    assert!(matches!(
        ask("POST", "/control/applications/wiki/profile"),
        Ok(Question::Profile(order)) if order.site == "wiki" && order.seconds == 30
    ));
    let jobs = Question::Jobs { applications: Some(vec!["blog".to_owned()]) };
    assert_eq!(ask("GET", "/jobs/blog/queue"), Ok(jobs));
    assert!(matches!(
        ask("POST", "/control/applications/blog/jobs/queue/run"),
        Ok(Question::OrderJob { order: JobOrder::Run, .. })
    ));
    assert!(matches!(ask("GET", "/jobs/blog/queue/log"), Ok(Question::JobLog { .. })));
    let applications = || Some(["blog", "shared:wp:1"].map(str::to_owned).to_vec());
    for (target, name) in
        [("/slow", None), ("/slow/wiki", Some("wiki")), ("/slow/blog", Some("blog"))]
    {
        let name = name.map(str::to_owned);
        let slow = Question::SlowScripts { name, applications: applications() };
        assert_eq!(ask("GET", target), Ok(slow), "{target}");
    }
    let requests = |target: &str| match ask("GET", target) {
        Ok(Question::LastRequests(filter)) => filter,
        other => panic!("{other:?}"),
    };
    let sites = Some(["blog", "shared:wp:1", "wiki"].map(str::to_owned).to_vec());
    let usual = RequestFilter { sites, max: 1000, ..RequestFilter::default() };
    assert_eq!(requests("/requests?limit=10000"), usual);
    assert_eq!(requests("/requests?site=wiki").sites, Some(vec!["wiki".to_owned()]));
}

#[test]
fn the_status_has_nothing_of_others() {
    let names = ["blog", "shared:wp:1", "shop", "news", "wiki", "plain", "api"];
    fn named<T: Default>(names: &[&str]) -> Named<T> {
        names.iter().map(|name| ((*name).to_owned(), T::default())).collect()
    }
    let part = |kind: &'static str, name: &str| PartStatus {
        kind: kind.into(),
        name: name.to_owned(),
        ..PartStatus::default()
    };
    let mut all = Status {
        applications: named::<ApplicationStatus>(&names),
        php: named::<PhpStatus>(&names),
        sites: named::<SiteTraffic>(&names),
        upstreams: named::<UpstreamStatus>(&["api"]),
        out: ["blog", "shop"].map(|name| part("application", name)).to_vec(),
        warnings: vec![part("listener", "blog"), part("site", "wiki")],
        ..Status::default()
    };
    all.requests.total = 7;
    all.memory.used = 1 << 40;
    all.php["blog"].memory.processes = 5;
    all.protection.applications = named(&names);
    let shown = anna().status(&all, "journald");
    let keys = |named: &Named<PhpStatus>| named.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&shown.php), set(&["blog", "shared:wp:1"]));
    assert_eq!(shown.sites.keys().collect::<Vec<_>>(), ["blog", "shared:wp:1", "wiki"]);
    assert_eq!((shown.out.len(), shown.warnings.len()), (1, 1));
    assert_eq!((shown.requests.total, shown.memory.used), (0, 5));
    let text = serde_json::to_string(&shown).unwrap();
    for foreign in ["shop", "news", "plain", "api"] {
        assert!(!text.contains(foreign), "{foreign}: {text}");
    }
}
