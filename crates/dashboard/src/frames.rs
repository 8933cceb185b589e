//! Rows and histories as JSON, with few digits, so that differences are small.

use howdah_questions::{PartStatus, Status};
use howdah_watch::{Figures, Row};
use serde_json::{Value, json};

/// Returns a number with three digits; null if it is none.
fn short(number: f64) -> Value {
    if !number.is_finite() {
        return Value::Null;
    }
    if number == 0.0 {
        return json!(0);
    }
    let scale = 10_f64.powf(2.0 - number.abs().log10().floor());
    let rounded = (number * scale).round() / scale;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

fn maybe(number: Option<f64>) -> Value {
    number.map_or(Value::Null, short)
}

/// Returns the frame of a row. The page reads its parts by their positions.
pub(crate) fn row(id: u32, row: &Row) -> Value {
    let notices: Vec<_> =
        row.notices.iter().map(|notice| json!([notice.rank, notice.text])).collect();
    json!([
        id,
        row.site,
        maybe(row.requests),
        maybe(row.error_rate),
        maybe(row.seconds),
        maybe(row.processors),
        short(row.memory as f64),
        row.errors,
        row.waiting,
        row.crashes,
        u8::from(row.active),
        notices,
    ])
}

/// Returns the figures of a point.
pub(crate) fn figures(figures: Figures) -> Value {
    figures.0.iter().map(|figure| short(f64::from(*figure))).collect()
}

/// Returns the histories of a site by figure.
pub(crate) fn points(points: &[Figures]) -> Value {
    let of = |at: usize| -> Value {
        let figures = points.iter().filter_map(|point| point.0.get(at));
        figures.map(|figure| short(f64::from(*figure))).collect()
    };
    (0..5).map(of).collect()
}

/// Returns the facts about the server that are above all sites.
pub(crate) fn server(status: &Status) -> Value {
    let program = status.server.clone().unwrap_or_default();
    let configuration = status.configuration.clone().unwrap_or_default();
    let php: Vec<_> = status.modules.php.all().iter().map(|module| &module.version).collect();
    let parts = |level: &str, parts: &[PartStatus]| -> Vec<Value> {
        let of = |part: &PartStatus| {
            json!({
                "level": level, "kind": part.kind, "name": part.name, "file": part.file,
                "reason": part.reason, "since": part.since,
            })
        };
        parts.iter().map(of).collect()
    };
    let mut problems = Vec::new();
    if let Some(document) = &status.document {
        problems.push(json!({
            "level": "refused", "kind": "document", "name": "", "since": document.refused.since,
            "reason": document.refused.reason,
        }));
    }
    problems.extend(parts("out", &status.out));
    problems.extend(parts("warning", &status.warnings));
    json!({
        "version": program.version,
        "started": program.started,
        "php": php,
        "generation": configuration.generation,
        "applied": configuration.applied,
        "document": status.files.as_ref().and_then(|files| files.document.as_ref()),
        "log": status.files.as_ref().map(|files| &files.log),
        "memory_budget": status.memory.budget,
        "replaced": status.replaced,
        "problems": problems,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (number, expected) in [
            (0.0, json!(0)),
            (1.0, json!(1)),
            (0.012_345, json!(0.0123)),
            (12.345, json!(12.3)),
            (123_456.0, json!(123_000)),
            (-2.567, json!(-2.57)),
            (f64::NAN, Value::Null),
            (f64::INFINITY, Value::Null),
        ] {
            assert_eq!(short(number), expected, "{number}");
        }
    }
}
