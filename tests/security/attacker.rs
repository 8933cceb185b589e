//! The attacker's program: compiles it, and reads its reports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Compiles the program. Linked statically, if the C library allows it, it also runs in a root
/// directory without libraries.
pub fn compile(program: &Path) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security/attacker");
    let entries = std::fs::read_dir(&directory).unwrap().flatten();
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    let compile = |how: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu17", "-O2"]).args(how);
        cc.args(&sources).arg("-o").arg(program).output().unwrap()
    };
    if !compile(&["-static"]).status.success() {
        let output = compile(&[]);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the attacker cannot be compiled:\n{problem}");
    }
}

/// A line of its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Group of attempts of which the same is expected.
    pub kind: String,
    /// The attempt.
    pub attempt: String,
    /// Its target.
    pub target: String,
    /// Outcome of the attempt.
    pub outcome: String,
}

impl Attempt {
    /// Parses a line; `None` if the attacker was killed within it.
    pub fn parse(line: &str) -> Option<Attempt> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
        Some(Attempt {
            kind: text("kind")?,
            attempt: text("attempt")?,
            target: text("target")?,
            outcome: text("outcome")?,
        })
    }

    /// Returns true if the attempt had an effect.
    pub fn has_succeeded(&self) -> bool {
        self.outcome.starts_with("SUCCEEDED")
    }

    /// The target did not exist any more.
    pub fn found_nobody(&self) -> bool {
        self.outcome.starts_with("refused ESRCH")
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { kind, attempt, target, outcome } = self;
        write!(f, "{kind}: {attempt}, {target}: {outcome}")
    }
}
