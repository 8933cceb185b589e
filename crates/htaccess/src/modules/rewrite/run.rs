//! One pass through the rules of a directory.

use super::condition::{Condition, Test, int};
use super::expand::{Mark, Style, may_look_up};
use super::pass::{Change, END_NOTE, Pass};
use super::rule::{Flags, Rule};
use super::trace::Event;
use super::{Config, cookie, uri};
use crate::expr::{self, merge_vary};
use crate::record::{FileInfo, FileKind, Record};
use crate::regex::{Captures, Overrun};
use crate::world::Level;

/// Maximum length of a path, in bytes: twice Apache's `LimitRequestLine`. Paths grow in loops.
const MAX_PATH_BYTES: usize = 16_380;

/// Maximum number of rules that a pass compares, over all rounds.
const MAX_STEPS: u32 = 1_000_000;

/// Effect of a rule.
enum Applied {
    No,
    /// Matched, without a substitution.
    Matched,
    Substituted,
    /// A question mark came in through a group: see `UnsafeAllow3F`.
    Unsafe,
}

impl Pass<'_, '_> {
    /// Applies all rules.
    pub fn run(&mut self) -> Change {
        let config = self.config;
        let (mut change, mut round, mut steps) = (Change::None, 1u32, 0);
        let mut index = 0;
        while let Some(rule) = config.rules.get(index) {
            index += 1;
            steps += 1;
            if steps > MAX_STEPS {
                return self.fail(rule, "took too many steps");
            }
            let flags = &rule.flags;
            if self.record.is_sub_request && (flags.skips_sub_requests || flags.is_redirect) {
                continue;
            }
            self.vary.clear();
            let applied = match self.apply(rule) {
                Ok(applied) => applied,
                Err(Overrun) => return self.fail(rule, "exceeded the limit on its work"),
            };
            if matches!(applied, Applied::No) {
                index = skip_chain(config, index - 1);
                continue;
            }
            if self.record.filename.len() > MAX_PATH_BYTES {
                return self.fail(rule, &format!("exceeded maximum length ({MAX_PATH_BYTES})"));
            }
            merge_vary(&mut self.record.headers_out, &self.vary);
            match applied {
                Applied::Unsafe => return Change::Refused(403),
                _ if flags.answers => return Change::Status(flags.status),
                Applied::Substituted => change = Change::Url { is_escaped: flags.keeps_escapes },
                _ => {}
            }
            if flags.passes_through {
                // Means something for rules of the server only, but ends the pass.
                return Change::Passed;
            }
            if flags.ends {
                self.record.notes.set(END_NOTE, "1");
                return change;
            }
            if flags.is_proxy || flags.is_last {
                return change;
            }
            if let Some(most) = flags.rounds {
                round += 1;
                if round >= most {
                    let text =
                        format!("exceeded maximum number of rounds ({most}) via the [N] flag");
                    return self.fail(rule, &text);
                }
                index = 0;
                continue;
            }
            index = index.saturating_add(flags.skip);
        }
        change
    }

    /// Logs why a request is answered with 500.
    fn fail(&self, rule: &Rule, reason: &str) -> Change {
        let pattern = String::from_utf8_lossy(rule.regex.pattern());
        let uri = String::from_utf8_lossy(&self.record.uri);
        let message = format!(
            "{}:{}: RewriteRule '{pattern}' and URI '{uri}' {reason}",
            rule.file, rule.line
        );
        self.scope.world().log(Level::Error, &message);
        Change::Status(500)
    }

    /// Path that patterns see, and that the rule's groups refer to.
    pub fn path(&self) -> &[u8] {
        &self.subject[self.start.min(self.subject.len())..]
    }

    fn refresh(&mut self) {
        if self.is_fresh {
            return;
        }
        self.subject.clear();
        self.subject.extend_from_slice(&self.record.filename);
        self.subject.extend_from_slice(&self.record.path_info);
        let directory = &self.config.directory;
        self.start = if self.subject.starts_with(directory) { directory.len() } else { 0 };
        self.is_fresh = true;
    }

    fn tell(&mut self, event: Event<'_>) {
        if let Some(trace) = &mut self.trace {
            trace(event);
        }
    }

    fn apply(&mut self, rule: &Rule) -> Result<Applied, Overrun> {
        self.refresh();
        let mut groups = Captures::NONE;
        let is_match = if rule.uses_groups && !rule.is_negated {
            let captures = rule.regex.captures(self.path())?;
            groups = captures.unwrap_or(Captures::NONE);
            captures.is_some()
        } else {
            rule.regex.is_match(self.path())?
        };
        let is_match = is_match != rule.is_negated;
        if let Some(trace) = &mut self.trace {
            let (file, line, pattern) = (&*rule.file, rule.line, rule.regex.pattern());
            let path = &self.subject[self.start..];
            trace(Event::Pattern { file, line, pattern, path, is_match });
        }
        if !is_match {
            return Ok(Applied::No);
        }
        self.vary_now.get_mut().clear();
        self.cond_groups = Captures::NONE;
        self.rule_groups = groups;
        if !rule.conditions.is_empty() && !self.conditions(rule)? {
            return Ok(Applied::No);
        }
        self.substitute(rule)
    }

    fn conditions(&mut self, rule: &Rule) -> Result<bool, Overrun> {
        let mut conditions = rule.conditions.iter();
        while let Some(condition) = conditions.next() {
            let holds = self.condition(condition, rule.uses_cond_groups)?;
            if condition.hides_vary {
                self.vary_now.get_mut().clear();
            }
            if !holds {
                if !condition.is_alternative {
                    return Ok(false);
                }
                self.vary_now.get_mut().clear();
                continue;
            }
            if condition.is_alternative {
                // The others, and the condition that ends the alternatives.
                conditions.by_ref().find(|condition| !condition.is_alternative);
            }
            let vary = self.vary_now.get_mut();
            if !vary.is_empty() {
                if !self.vary.is_empty() {
                    self.vary.extend_from_slice(b", ");
                }
                self.vary.append(vary);
            }
        }
        Ok(true)
    }

    fn condition(&mut self, condition: &Condition, keeps_groups: bool) -> Result<bool, Overrun> {
        let is_file = |file: Option<FileInfo>, kind| file.is_some_and(|file| file.kind == kind);
        let shown = match self.trace {
            Some(_) => {
                let shown = self.text(&condition.input)?.into_owned();
                self.vary_now.get_mut().clear();
                Some(shown)
            }
            None => None,
        };
        let (scope, world) = (self.scope, self.scope.world());
        let holds = match &condition.test {
            Test::Regex(regex) => {
                let input = self.text(&condition.input)?;
                if keeps_groups && !condition.is_negated {
                    let captures = regex.captures(&input)?;
                    if let Some(captures) = captures {
                        self.cond_subject = input.into_owned();
                        self.cond_groups = captures;
                    }
                    captures.is_some()
                } else {
                    regex.is_match(&input)?
                }
            }
            Test::File => is_file(world.stat(&self.text(&condition.input)?), FileKind::File),
            Test::Directory => {
                is_file(world.stat(&self.text(&condition.input)?), FileKind::Directory)
            }
            Test::NotEmptyFile => {
                let file = world.stat(&self.text(&condition.input)?);
                file.is_some_and(|file| file.kind == FileKind::File && file.size > 0)
            }
            Test::Link => {
                // A slash at the end follows the link.
                let input = self.text(&condition.input)?;
                !input.ends_with(b"/") && world.lstat(&input).is_some_and(|file| file.is_link)
            }
            Test::Executable => {
                let file = world.stat(&self.text(&condition.input)?);
                file.is_some_and(|file| file.mode & 0o111 != 0)
            }
            Test::AllowedUrl => {
                let input = self.text(&condition.input)?;
                !input.is_empty()
                    && may_look_up(scope, self.record)
                    && scope.look_up_uri(self.record, &input).status < 400
            }
            Test::AllowedFile => {
                let input = self.text(&condition.input)?;
                !input.is_empty() && may_look_up(scope, self.record) && {
                    let found = scope.look_up_file(self.record, &input);
                    found.status < 300 && world.stat(&found.filename).is_some()
                }
            }
            Test::Text(relation, text) => {
                let input = self.text(&condition.input)?;
                relation.holds(if condition.ignores_case {
                    input.to_ascii_lowercase().cmp(&text.to_ascii_lowercase())
                } else {
                    // A longer text is greater.
                    input.len().cmp(&text.len()).then_with(|| (*input).cmp(text))
                })
            }
            Test::Number(relation, limit) => {
                relation.holds(int(&self.text(&condition.input)?).cmp(limit))
            }
            Test::Expr(expr) => self.expression(expr, condition)?,
        };
        let holds = holds != condition.is_negated;
        if let Some(input) = shown {
            let pattern = &condition.pattern;
            self.tell(Event::Condition { input: &input, pattern, is_match: holds });
        }
        Ok(holds)
    }

    fn expression(&mut self, expr: &expr::Expr, condition: &Condition) -> Result<bool, Overrun> {
        let mut context = expr::Context::default();
        match expr.evaluate(self.record, self.scope, &mut context) {
            Ok(holds) => {
                if holds && !condition.is_negated {
                    self.cond_groups = context.groups.captures;
                    self.cond_subject = context.groups.subject;
                }
                if !condition.hides_vary {
                    merge_vary(&mut self.record.headers_out, &context.vary);
                }
                Ok(holds)
            }
            Err(expr::Failure::Overrun) => Err(Overrun),
            Err(expr::Failure::Other(_)) => Ok(false),
        }
    }

    fn substitute(&mut self, rule: &Rule) -> Result<Applied, Overrun> {
        let flags = &rule.flags;
        let style = Style { escape: flags.escape.as_ref(), wants_last_mark: flags.splits_last };
        let new = match &rule.substitution {
            Some(substitution) => {
                let (new, mark) = self.expand(substitution, style)?;
                if let Some(trace) = &mut self.trace {
                    trace(Event::Substitution { from: &self.subject[self.start..], to: &new });
                }
                if mark == Mark::Foreign && !flags.allows_question_mark {
                    let message = "Unsafe URL with %3f URL rewritten without UnsafeAllow3F";
                    self.scope.world().log(Level::Error, message);
                    return Ok(Applied::Unsafe);
                }
                Some(new)
            }
            None => None,
        };
        self.set_environment(flags)?;
        let Some(mut new) = new else {
            self.force_type_and_handler(flags, style)?;
            return Ok(Applied::Matched);
        };
        let is_prefixed = new.first() != Some(&b'/') && uri::scheme(&new).is_none();
        if is_prefixed {
            new.splice(0..0, self.config.directory.iter().copied());
        }
        self.is_fresh = false;
        self.record.filename = new;
        if flags.discards_path_info {
            self.record.path_info.clear();
        }
        split_query(self.record, flags);
        if flags.is_proxy {
            self.qualify();
            self.record.filename.splice(0..0, *b"proxy:");
            return Ok(Applied::Substituted);
        }
        if flags.is_redirect {
            self.qualify();
            self.status = flags.status;
            return Ok(Applied::Substituted);
        }
        if uri::scheme(&self.record.filename).is_some() {
            self.status = flags.status;
            return Ok(Applied::Substituted);
        }
        if !flags.keeps_slashes && !is_prefixed && !rule.has_double_slash {
            let slashes = self.record.filename.iter().take_while(|byte| **byte == b'/').count();
            self.record.filename.drain(..slashes.saturating_sub(1));
        }
        self.force_type_and_handler(flags, style)?;
        Ok(Applied::Substituted)
    }

    fn set_environment(&mut self, flags: &Flags) -> Result<(), Overrun> {
        for template in &flags.env {
            let text = self.text(template)?.into_owned();
            let (name, value) = match text.strip_prefix(b"!") {
                Some(name) => (name, None),
                None => match memchr::memchr(b':', &text) {
                    Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
                    None => (text.as_slice(), Some([].as_slice())),
                },
            };
            match value {
                Some(value) => self.record.env.set(name, value),
                None => self.record.env.unset(name),
            }
            self.tell(Event::Env { name, value });
        }
        for template in &flags.cookies {
            let text = self.text(template)?.into_owned();
            cookie::add(self.record, &text);
        }
        Ok(())
    }

    fn force_type_and_handler(&mut self, flags: &Flags, style: Style<'_>) -> Result<(), Overrun> {
        let notes = [
            (&flags.mime_type, super::fixup::TYPE_NOTE),
            (&flags.handler, super::fixup::HANDLER_NOTE),
        ];
        for (template, note) in notes {
            let Some(template) = template else { continue };
            let (mut text, _) = self.expand(template, style)?;
            if !text.is_empty() {
                text.make_ascii_lowercase();
                self.record.notes.set(note, text);
            }
        }
        Ok(())
    }

    /// Makes an absolute URL of a path.
    fn qualify(&mut self) {
        if self.record.method == b"CONNECT" || uri::scheme(&self.record.filename).is_some() {
            return;
        }
        let connection = &self.record.connection;
        let (scheme, default_port) =
            if connection.is_https { ("https", 443) } else { ("http", 80) };
        let mut url = format!("{scheme}://").into_bytes();
        let is_bare_ipv6 =
            connection.server_name.contains(&b':') && !connection.server_name.starts_with(b"[");
        if is_bare_ipv6 {
            url.push(b'[');
        }
        url.extend_from_slice(&connection.server_name);
        if is_bare_ipv6 {
            url.push(b']');
        }
        if connection.server_port != default_port {
            url.extend_from_slice(format!(":{}", connection.server_port).as_bytes());
        }
        if !self.record.filename.starts_with(b"/") {
            url.push(b'/');
        }
        url.extend_from_slice(&self.record.filename);
        self.record.filename = url;
    }
}

/// Index of the rule behind a chain of which a rule did not match.
fn skip_chain(config: &Config, index: usize) -> usize {
    let chained = |rule: &&std::sync::Arc<Rule>| rule.flags.is_chained;
    index + config.rules.iter().skip(index).take_while(chained).count() + 1
}

/// Moves the text after a question mark from the path to the query.
fn split_query(record: &mut Record, flags: &Flags) {
    if flags.drops_query {
        record.args = None;
        return;
    }
    let scheme = uri::scheme(&record.filename);
    if scheme.is_some_and(|scheme| !scheme.has_query) {
        record.args = None;
        return;
    }
    if flags.discards_query {
        record.args = None;
    }
    let start = scheme.map_or(0, |scheme| scheme.length.min(record.filename.len()));
    let rest = &record.filename[start..];
    let mark =
        if flags.splits_last { memchr::memrchr(b'?', rest) } else { memchr::memchr(b'?', rest) };
    let Some(mark) = mark else { return };
    let mut query = record.filename.split_off(start + mark);
    query.remove(0);
    if flags.appends_query {
        if query.is_empty() {
            query = record.args.take().unwrap_or_default();
        } else {
            query.push(b'&');
            query.extend_from_slice(record.args.as_deref().unwrap_or_default());
        }
    }
    if query.last() == Some(&b'&') {
        query.pop();
        record.args = Some(query);
    } else {
        record.args = Some(query).filter(|query| !query.is_empty());
    }
}
