//! The rules for Prometheus and the dashboard for Grafana in packaging/monitoring, checked by
//! Prometheus' own program. That their metrics exist, the tests of `howdah-metrics` show.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::requirements;
use serde_json::{Value, json};

const RULES: [&str; 2] = ["howdah-recording.yml", "howdah-alerts.yml"];

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/monitoring").join(name)
}

/// Runs `promtool`. Reports that the test is skipped if it is not installed.
#[track_caller]
fn promtool(arguments: &[&str], files: &[PathBuf]) -> bool {
    let Ok(output) = Command::new("promtool").args(arguments).args(files).output() else {
        requirements::skipped("promtool is not installed (Debian's package prometheus)");
        return false;
    };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{files:?}: {}", String::from_utf8_lossy(&said));
    true
}

/// Returns what follows these words in lines of a file of rules.
fn values(file: &str, key: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(place("prometheus").join(file)).unwrap();
    let values = text.lines().filter_map(|line| line.trim().strip_prefix(key));
    values.map(|value| value.trim().to_owned()).collect()
}

#[test]
fn prometheus_accepts_the_rules_and_their_tests_pass() {
    let rules = RULES.map(|file| place("prometheus").join(file));
    if promtool(&["check", "rules"], &rules) {
        promtool(&["test", "rules"], &[place("prometheus/howdah-alerts.test.yml")]);
    }
}

#[test]
fn each_alert_has_a_test() {
    let alerts = values(RULES[1], "- alert:");
    assert!(alerts.len() > 15);
    assert_eq!(alerts, values("howdah-alerts.test.yml", "alertname:"));
}

/// Of 500 sites, one fails and one crashes: each has one alert with its name, and no other has one.
#[test]
fn of_five_hundred_sites_only_the_broken_ones_have_alerts() {
    let directory = tempfile::tempdir().unwrap();
    let own = "job=\"howdah\", instance=\"a\"";
    let mut series = String::new();
    let mut add = |name: &str, labels: &str, values: &str| {
        writeln!(series, "      - series: '{name}{{{own}, {labels}}}'").unwrap();
        writeln!(series, "        values: '{values}'").unwrap();
    };
    for number in 0..500 {
        let requests = |class: &str| {
            format!("site=\"site{number}\", listener=\"*:443\", method=\"GET\", code=\"{class}\"")
        };
        add("howdah_http_requests_total", &requests("2xx"), "0+60x20");
        let failed = if number == 250 { "0+30x20" } else { "1x20" };
        add("howdah_http_requests_total", &requests("5xx"), failed);
        let ends = format!("application=\"site{number}\", reason=\"signal_11\"");
        let crashes = if number == 499 { "0+3x20" } else { "2x20" };
        add("howdah_php_process_ends_total", &ends, crashes);
        let application = format!("application=\"site{number}\"");
        add("howdah_php_waiting_requests", &application, "0x20");
        add("howdah_php_up", &application, "1x20");
    }
    let labels = "job: howdah, instance: a";
    let expected = |alert: &str, found: &str| {
        format!("      - eval_time: 18m\n        alertname: {alert}\n        exp_alerts: {found}\n")
    };
    let failing = format!(
        "\n          - exp_labels: {{ severity: warning, {labels}, site: site250 }}\n            \
         exp_annotations:\n              summary: 33.33% of the requests of site250 fail\n              \
         action: howdah requests --site site250 --status 5xx"
    );
    let crashing = format!(
        "\n          - exp_labels: {{ severity: critical, {labels}, application: site499 }}\n            \
         exp_annotations:\n              summary: 30 processes of site499 have crashed in ten minutes\n              \
         action: the log has the script, the signal and PHP's last messages of each"
    );
    let test = format!(
        "rule_files: {:?}\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n\
         {series}    alert_rule_test:\n{}{}{}{}",
        RULES.map(|file| place("prometheus").join(file)),
        expected("HowdahErrorRate", &failing),
        expected("HowdahCrashLoop", &crashing),
        expected("HowdahPoolExhausted", "[]"),
        expected("HowdahApplicationOut", "[]"),
    );
    let file = directory.path().join("test.yml");
    fs::write(&file, test).unwrap();
    promtool(&["test", "rules"], &[file]);
}

/// The queries of docs/monitor.md are ones that Prometheus accepts.
#[test]
fn the_documented_queries_are_valid() {
    let text = include_str!("../../docs/monitor.md");
    let table = text.lines().skip_while(|line| *line != "| the site | query |").skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let queries = rows.map(|row| row.split('`').nth(1).unwrap().replace("\\|", "|"));
    let rules: Vec<_> = queries
        .enumerate()
        .map(|(number, query)| json!({"record": format!("query:{number}"), "expr": query}))
        .collect();
    assert!(rules.len() >= 5);
    check_rules(&rules);
}

#[test]
fn the_dashboard_has_queries_that_prometheus_accepts() {
    let dashboard = fs::read_to_string(place("grafana/howdah.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "instance", "site"]);
    let (mut ids, mut rules) = (BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        let queries = panel["targets"].as_array().into_iter().flatten();
        for query in queries.map(|target| target["expr"].as_str().unwrap()) {
            assert!(query.contains("$instance"), "{query} is of all servers");
            // A text of 500 sites is no answer.
            let is_of_each = query.contains("by (site") || query.contains("by (application");
            assert!(!is_of_each || query.contains("topk(10"), "{query} has no end");
            let query = query.replace("$__rate_interval", "5m");
            rules.push(json!({"record": format!("query:{}", rules.len()), "expr": query}));
        }
    }
    assert!(rules.len() > 30);
    check_rules(&rules);
}

/// Checks queries, which are recording rules.
#[track_caller]
fn check_rules(rules: &[Value]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let groups = json!({"groups": [{"name": "queries", "rules": rules}]});
    fs::write(file.path(), groups.to_string()).unwrap();
    promtool(&["check", "rules"], &[file.path().to_owned()]);
}
