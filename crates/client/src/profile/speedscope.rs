//! The file format of speedscope: <https://www.speedscope.app/file-format-schema.json>.

use std::collections::HashMap;

use howdah_questions::Profile;
use serde_json::{Value, json};

use super::tree::Tree;

pub(super) fn write(profile: &Profile, tree: &Tree<'_>) -> String {
    let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let places: Vec<_> = tree
        .0
        .iter()
        .map(|node| {
            *numbers.entry((node.name, node.file)).or_insert_with(|| {
                frames.push(match node.file {
                    "" => json!({"name": node.label()}),
                    file => json!({"name": node.label(), "file": file}),
                });
                frames.len() - 1
            })
        })
        .collect();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (at, node) in tree.0.iter().enumerate().filter(|(_, node)| node.own > 0) {
        let mut stack: Vec<_> = tree.stack(at).filter_map(|at| places.get(at)).collect();
        stack.reverse();
        samples.push(json!(stack));
        weights.push(node.own.saturating_mul(profile.period_us.into()));
    }
    let end = weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let name = match &*profile.clock {
        "processor" => format!("{} (processor time)", profile.site),
        _ => profile.site.clone(),
    };
    let text = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("howdah ", env!("CARGO_PKG_VERSION")),
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": "microseconds",
            "startValue": 0,
            "endValue": end,
            "samples": samples,
            "weights": weights,
        }],
    });
    format!("{text}\n")
}
