use howdah_wire::frame::OpcacheUsage;

use super::*;
use crate::status::{PoolStatus, RequestStatus};

fn pool() -> Pool {
    let request = RequestStatus {
        id: Some(7),
        method: "GET".into(),
        target: "/a.php?x=<b>&y='\"\u{1b}".into(),
        length: 3,
        script: "/srv/a.php".into(),
        duration: 2000,
        cpu: 500,
        memory: 2 << 20,
        ..RequestStatus::default()
    };
    let busy = ProcessStatus { pid: 11, running: true, requests: 2, ..ProcessStatus::default() };
    let status = PoolStatus {
        manager: "dynamic",
        start_time: 1_795_199_798,
        accepted: 9,
        queued: 1,
        max_queued: 4,
        queue_limit: 8192,
        idle: 1,
        active: 1,
        max_active: 2,
        max_children_reached: 3,
        slow: 5,
        given_up: 0,
        memory_peak: 4 << 20,
        cpu_time: 0,
        max_processes: 6,
        waiting_time: 1_500_000,
        longest_run: 0,
        max_waiting_time: 2_000_001,
        retired: Vec::new(),
        opcache: Some(OpcacheUsage { is_enabled: true, used: 70, hits: 5, ..Default::default() }),
        processes: vec![ProcessStatus { request, ..busy }, ProcessStatus::default()],
    };
    Pool { name: "blog".into(), status }
}

/// The names that PHP-FPM 8.2 writes, in its order.
const POOL: [&str; 14] = [
    "pool",
    "process manager",
    "start time",
    "start since",
    "accepted conn",
    "listen queue",
    "max listen queue",
    "listen queue len",
    "idle processes",
    "active processes",
    "total processes",
    "max active processes",
    "max children reached",
    "slow requests",
];
const PROCESS: [&str; 13] = [
    "pid",
    "state",
    "start time",
    "start since",
    "requests",
    "request duration",
    "request method",
    "request uri",
    "content length",
    "user",
    "script",
    "last request cpu",
    "last request memory",
];

#[test]
fn php_fpms_fields_come_first_and_in_its_order() {
    let pool = pool();
    let names = |fields: Vec<Field<'_>>| fields.into_iter().map(|f| f.0).collect::<Vec<_>>();
    assert_eq!(names(fields::of_pool(&pool))[..14], POOL);
    assert_eq!(names(fields::of_process(&pool.status.processes[0]))[..13], PROCESS);
}

#[test]
fn text_has_a_line_for_each_field() {
    let text = Format::Text.write(&pool(), true, View::Howdah);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "pool:                 blog");
    assert!(
        lines[2].starts_with("start time:           20/Nov/2026:") || lines[2].contains("/2026:")
    );
    assert_eq!(lines[7], "listen queue len:     8192");
    assert!(text.contains(
        "\n\n************************\npid:                  11\nstate:                Running\n"
    ));
    assert!(text.contains("request URI:          /a.php?x=<b>&y='\"\u{fffd}\n"), "{text}");
    assert!(text.contains("last request cpu:     25.00\n"), "{text}");
    assert!(!Format::Text.write(&pool(), false, View::Howdah).contains('*'));
}

#[test]
fn json_has_php_fpms_names_and_types() {
    let short: Json =
        serde_json::from_str(&Format::Json.write(&pool(), false, View::Howdah)).unwrap();
    assert_eq!(short["process manager"], "dynamic");
    assert_eq!(short["start time"], 1_795_199_798);
    assert!(short.get("processes").is_none());
    let full: Json =
        serde_json::from_str(&Format::Json.write(&pool(), true, View::Howdah)).unwrap();
    assert_eq!(full["processes"][0]["last request cpu"], 25.0);
    assert_eq!(full["processes"][0]["request uri"], "/a.php?x=<b>&y='\"\u{1b}");
    assert_eq!(full["processes"][1]["request method"], "-");
}

#[test]
fn xml_has_an_element_for_each_field() {
    let xml = Format::Xml.write(&pool(), true, View::Howdah);
    assert!(xml.starts_with("<?xml version=\"1.0\" ?>\n<status>\n<pool>blog</pool>\n"), "{xml}");
    assert!(xml.contains("<start-time>1795199798</start-time>\n"), "{xml}");
    assert!(xml.contains("<processes>\n<process><pid>11</pid><state>Running</state>"), "{xml}");
    assert!(xml.ends_with("</processes>\n</status>\n"), "{xml}");
}

#[test]
fn what_visitors_send_is_no_markup_of_the_status_page() {
    for format in [Format::Html, Format::Xml] {
        let page = format.write(&pool(), true, View::Howdah);
        assert!(page.contains("x=&lt;b&gt;&amp;y=&#39;&quot;\u{fffd}"), "{page}");
        assert!(!page.contains("<b>") && !page.contains('\u{1b}'), "{page}");
    }
    let page = unsniffed(begin(None, String::new()));
    assert_eq!(page.fields.get("x-content-type-options"), Some(&b"nosniff"[..]));
}

#[test]
fn pages_name_the_version_of_php_unless_it_is_hidden() {
    for (php, expected) in [(Some("8.2.36"), Some(&b"PHP/8.2.36"[..])), (None, None)] {
        let page = begin(php, String::new());
        assert_eq!(page.fields.get("x-powered-by"), expected);
    }
}

#[test]
fn metrics_have_php_fpms_names() {
    let metrics = Format::OpenMetrics.write(&pool(), false, View::Howdah);
    for line in [
        "phpfpm_up 1",
        "phpfpm_accepted_connections 9",
        "phpfpm_listen_queue 1",
        "phpfpm_max_listen_queue 4",
        "phpfpm_listen_queue_length 8192",
        "phpfpm_total_processes 2",
        "phpfpm_max_children_reached 3",
        "phpfpm_opcache_enabled 1",
        "phpfpm_opcache_used_bytes 70",
        "phpfpm_opcache_hits 5",
        "phpfpm_opcache_restarts 0",
        "phpfpm_slow_requests 5",
        "phpfpm_waiting_seconds 1.500000",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[test]
fn a_web_server_gets_php_fpms_page_without_our_fields() {
    let mut pool = pool();
    pool.status.count_one_more();
    assert_eq!((pool.status.idle, pool.status.active, pool.status.max_active), (0, 2, 2));
    pool.status.count_one_more();
    assert_eq!((pool.status.idle, pool.status.active), (0, 2), "none is idle");
    let page = |format: Format| format.write(&pool, true, View::PhpFpm { is_apart: false });
    let json: Json = serde_json::from_str(&page(Format::Json)).unwrap();
    assert_eq!(json.as_object().unwrap().len(), POOL.len() + 1);
    assert_eq!(json["processes"][0].as_object().unwrap().len(), PROCESS.len());
    let html = page(Format::Html);
    assert!(
        html.contains("<title>PHP-FPM Status Page</title></head>\n<body>\n<table>\n"),
        "{html}"
    );
    assert!(html.contains("<th>last request memory</th></tr>\n"), "{html}");
    let metrics = page(Format::OpenMetrics);
    assert_eq!(metrics.lines().filter(|line| line.starts_with("# TYPE")).count(), 12);
    let up = "# HELP phpfpm_up Could pool blog using a dynamic PM on PHP-FPM be reached?\n";
    assert!(metrics.starts_with(up), "{metrics}");
    assert!(metrics.contains("slow_requests 5\n# EOF\n"), "{metrics}");
}

#[test]
fn php_gets_the_keys_of_fpm_get_status() {
    let value = pool().to_value(true);
    assert_eq!(value["process-manager"], "dynamic");
    assert_eq!(value["max-children-reached"], 3);
    let Json::Object(process) = &value["procs"][0] else { panic!("{value}") };
    let names: Vec<_> = process.keys().take(14).collect();
    let expected = [
        "pid",
        "state",
        "start-time",
        "start-since",
        "requests",
        "request-duration",
        "request-method",
        "request-uri",
        "query-string",
        "request-length",
        "user",
        "script",
        "last-request-cpu",
        "last-request-memory",
    ];
    assert_eq!(names, expected);
    let plain = pool().to_value(false);
    let last = |value: &Json| value.as_object().and_then(|all| all.keys().next_back().cloned());
    assert_eq!(last(&plain["procs"][0]).as_deref(), Some("last-request-memory"));
    let names: Vec<_> = plain.as_object().unwrap().keys().rev().take(2).cloned().collect();
    assert_eq!(names, ["procs", "slow-requests"]);
    assert_eq!(
        (&process["request-uri"], &process["last-request-cpu"]),
        (&"/a.php".into(), &25.0.into())
    );
}
