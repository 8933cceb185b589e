//! All conditions of a rule.

use howdah_htaccess::parse::Node;

use crate::condition::{self, Captures, Condition};
use crate::folder::words_of;
use crate::matching::{Match, product};

/// Paths that count as missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Those that name no file; directories are missing.
    Files,
    /// Those that name neither a file nor a directory.
    FilesAndDirectories,
}

/// Conditions of a rule, translated.
#[derive(Default)]
pub struct Conditions {
    /// Alternatives, one of which has to hold.
    pub matches: Vec<Match>,
    /// Tests of the request's file that all hold.
    pub missing: Option<Missing>,
    /// There is no directory of the name: enough for a path with a slash at its end.
    pub is_no_directory: bool,
    /// The request's file exists.
    pub is_there: Option<Missing>,
    /// What `%1` stands for.
    pub captures: Option<Captures>,
    /// They find the path in front of the directory, for the variable BASE.
    pub is_base: bool,
    /// The rule can never apply.
    pub is_never: bool,
    /// Reason why a part was left out: the rest holds for more requests.
    pub failure: Option<String>,
    /// The rule asks who the client is.
    pub asks_for_the_client: bool,
    /// The rule asks for a file that belongs to that of the request, such as one of a cache.
    pub asks_for_other_file: bool,
}

impl Conditions {
    /// Translates the conditions of a rule.
    pub fn of(nodes: &[&Node]) -> Conditions {
        let mut all = Conditions { matches: vec![Match::default()], ..Conditions::default() };
        let mut group: Vec<Result<Condition, String>> = Vec::new();
        let (mut is_no_file, mut has_or) = (false, false);
        for node in nodes {
            let words = words_of(node);
            let parsed = condition::parse(&words);
            let is_or = condition::is_or(&words);
            has_or |= is_or;
            all.asks_for_the_client |= asks_for_the_client(&words);
            let captures = parsed.as_ref().map(|parsed| parsed.captures.clone());
            all.captures = captures.ok().filter(|_| !has_or);
            all.is_base |= parsed.as_ref().is_ok_and(|parsed| parsed.is_base);
            group.push(parsed.map(|parsed| parsed.condition));
            if !is_or {
                all.group(std::mem::take(&mut group), &mut is_no_file);
            }
        }
        // With the flag OR at the last condition, a rule always applies: what is left counts for nothing.
        all.missing = match (is_no_file, all.is_no_directory) {
            (true, true) => Some(Missing::FilesAndDirectories),
            (true, false) => Some(Missing::Files),
            (false, _) => None,
        };
        all
    }

    /// Adds conditions, one of which has to hold.
    fn group(&mut self, group: Vec<Result<Condition, String>>, is_no_file: &mut bool) {
        let mut alternatives: Vec<Match> = Vec::new();
        let mut is_always = false;
        let mut there = Vec::new();
        let count = group.len();
        let (mut beside, mut is_elsewhere) = (0, false);
        for condition in group {
            match condition {
                Ok(Condition::Constant(holds)) => is_always |= holds,
                Ok(Condition::Matches(list)) => alternatives.extend(list),
                Ok(Condition::File(test)) if !test.is_of_request => {
                    beside += usize::from(test.is_beside && !test.is_negated);
                    match beside == count {
                        true => self.asks_for_other_file = true,
                        false => is_elsewhere = true,
                    }
                    is_always = true;
                }
                Ok(Condition::File(test)) if test.is_negated && count == 1 => {
                    is_always = true;
                    match test.kind {
                        'f' | 's' | 'F' => *is_no_file = true,
                        'd' => self.is_no_directory = true,
                        // A link is a file or a directory.
                        _ => {}
                    }
                }
                Ok(Condition::File(test)) if !test.is_negated => there.push(test.kind),
                Ok(Condition::File(_)) => {
                    self.fail("routes cannot combine its conditions");
                    is_always = true;
                }
                Err(reason) => {
                    self.fail(&reason);
                    is_always = true;
                }
            }
        }
        if is_elsewhere && beside < count {
            self.fail("routes do not look for a file in another place");
        }
        if !there.is_empty() {
            if there.len() != count {
                self.fail("routes cannot combine its conditions");
            }
            if !there.iter().any(|kind| matches!(kind, 'f' | 's' | 'F')) {
                // Rules behind it see files.
                self.fail("routes have no condition for paths that name a directory or a link");
            }
            self.is_there = Some(match there.contains(&'d') {
                true => Missing::FilesAndDirectories,
                false => Missing::Files,
            });
            is_always = true;
        }
        if is_always {
            return;
        }
        if alternatives.is_empty() {
            self.is_never = true;
            return;
        }
        match product(&self.matches, &alternatives) {
            Some(matches) => self.matches = matches,
            None => self.fail("routes cannot combine its conditions"),
        }
    }

    fn fail(&mut self, reason: &str) {
        self.failure.get_or_insert_with(|| reason.to_owned());
    }

    /// Returns true if a file is asked for.
    pub fn asks_for_files(&self) -> bool {
        self.missing.is_some()
            || self.is_no_directory
            || self.is_there.is_some()
            || self.asks_for_other_file
    }
}

/// Returns true if a condition looks at more than the address that was asked for: at who the client is.
fn asks_for_the_client(words: &[String]) -> bool {
    let subject = words.first().map(String::as_str).unwrap_or_default();
    let mut names = subject.split("%{").skip(1).filter_map(|rest| rest.split('}').next());
    subject.eq_ignore_ascii_case("expr") || names.any(|name| !OF_THE_ADDRESS.contains(&name))
}

/// Variables of the address that was asked for, and of the file that it names.
const OF_THE_ADDRESS: &[&str] = &[
    "THE_REQUEST",
    "REQUEST_URI",
    "REQUEST_FILENAME",
    "SCRIPT_FILENAME",
    "REQUEST_SCHEME",
    "QUERY_STRING",
    "DOCUMENT_ROOT",
    "HTTP_HOST",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PORT_SECURE",
    "HTTPS",
    "HTTP:Host",
    "HTTP:X-Forwarded-Proto",
    "HTTP:X-Forwarded-Host",
    "HTTP:CF-Visitor",
    "ENV:HTTPS",
    "ENV:REDIRECT_STATUS",
    "ENV:BASE",
    "IS_SUBREQ",
];
