//! The names that dashboard, rules and documents use are those that the server sends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_http::usage::Used;
use howdah_questions::ConfigurationStatus;

use super::{status, totals};
use crate::exposition::Format;
use crate::server::{ProcessFacts, page};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the names of all series of the text, and those of histograms.
fn sent() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut status = status();
    let applied = status.server.as_ref().and_then(|server| server.started.clone());
    status.configuration = Some(ConfigurationStatus { generation: 1, applied });
    status.memory.budget = Some(1);
    for php in status.php.values_mut() {
        php.activity.restarts.insert("asked".to_owned(), 1);
    }
    status.warnings = status.out.clone();
    let mut totals = totals(1);
    totals.add_script(&Arc::from("site0"), Used { php_us: 1, ..Used::default() });
    for counts in totals.requests.values_mut() {
        (counts.cut_by_client, counts.cut_by_server) = (1, 1);
    }
    let process =
        ProcessFacts { descriptors: Some(1), max_descriptors: Some(1), refused_since: Some(1) };
    let text = String::from_utf8(page(&status, &totals, &process, Format::Prometheus)).unwrap();
    let (mut series, mut histograms) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        if kind == "histogram" {
            histograms.insert(name.to_owned());
            series.extend(["bucket", "count", "sum"].map(|end| format!("{name}_{end}")));
        } else {
            series.insert(name.to_owned());
        }
    }
    (series, histograms)
}

/// Returns the names in a text, those of recording rules with their colons.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_end_matches(':'));
    words.filter(|word| word.contains("howdah_")).collect()
}

fn is_recorded(name: &str) -> bool {
    name.contains(':')
}

#[test]
fn rules_and_dashboard_use_names_that_are_sent() {
    let (series, histograms) = sent();
    let place = root().join("packaging/monitoring");
    let recording = fs::read_to_string(place.join("prometheus/howdah-recording.yml")).unwrap();
    let recorded: BTreeSet<_> =
        recording.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    assert!(recorded.len() > 3 && recorded.iter().all(|name| is_recorded(name)));
    for file in [
        "prometheus/howdah-recording.yml",
        "prometheus/howdah-alerts.yml",
        "prometheus/howdah-alerts.test.yml",
        "grafana/howdah.json",
    ] {
        let text = fs::read_to_string(place.join(file)).unwrap();
        let used = names(&text);
        assert!(used.len() > 5, "{file}: {used:?}");
        for name in used {
            // Native histograms have the names of their families.
            let is_sent = series.contains(name) || histograms.contains(name);
            let is_known = if is_recorded(name) { recorded.contains(name) } else { is_sent };
            assert!(is_known, "{file}: the server sends no {name}");
        }
    }
}

#[test]
fn documents_name_metrics_that_are_sent() {
    let (series, histograms) = sent();
    let text = fs::read_to_string(root().join("docs/monitor.md")).unwrap();
    for name in names(&text).into_iter().filter(|name| !is_recorded(name)) {
        let is_group = name.ends_with('_') && series.iter().any(|known| known.starts_with(name));
        assert!(
            is_group || series.contains(name) || histograms.contains(name),
            "docs/monitor.md: the server sends no {name}"
        );
    }
}

/// The dashboard has a panel for each metric of the table of questions.
#[test]
fn the_dashboard_answers_each_question() {
    let place = root();
    let text = fs::read_to_string(place.join("docs/monitor.md")).unwrap();
    let questions: Vec<_> =
        text.lines().skip_while(|line| !line.starts_with("| question |")).skip(2).collect();
    let questions = questions.into_iter().take_while(|line| line.starts_with('|'));
    let dashboard = place.join("packaging/monitoring/grafana/howdah.json");
    let dashboard = fs::read_to_string(dashboard).unwrap();
    let shown = names(&dashboard);
    let mut count = 0;
    for question in questions {
        let asked = question.replace("\\|", "/");
        let asked = asked.split('|').nth(3).unwrap();
        for name in names(asked) {
            let is_shown = shown.iter().any(|shown| shown.starts_with(name));
            assert!(is_shown, "the dashboard has no panel with {name}: {question}");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
