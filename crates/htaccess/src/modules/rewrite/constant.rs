//! Rules that do the same with each request for a path, as long as the path names the same file.

use super::condition::{Condition, Test};
use super::rule::Rule;
use super::template::{Lookup, Segment, Template};
use crate::expr::Variable;

/// Variables that decide about the head of a response.
const DECISIVE: [&[u8]; 4] = [b"no-gzip", b"gzip-only-text/html", b"force-gzip", b"force-no-vary"];

impl Rule {
    /// Returns true if the effect of the rule depends only on the path of a request and the file
    /// that it names. A rule that substitutes is another matter: the file is not that of the path
    /// then.
    pub fn is_constant(&self) -> bool {
        let flags = &self.flags;
        flags.cookies.is_empty()
            && flags.handler.is_none()
            && flags.mime_type.is_none()
            && flags.env.iter().all(is_harmless)
            && self.conditions.iter().all(Condition::is_constant)
    }
}

impl Condition {
    fn is_constant(&self) -> bool {
        match self.test {
            Test::Regex(_) | Test::Text(..) | Test::Number(..) => {
                self.input.segments.iter().all(is_of_path)
            }
            // The existence of another file may change.
            Test::File | Test::Directory | Test::Link => matches!(
                self.input.segments.as_slice(),
                [Segment::Lookup(Lookup::Variable(Variable::RequestFilename))]
            ),
            Test::NotEmptyFile
            | Test::Executable
            | Test::AllowedUrl
            | Test::AllowedFile
            | Test::Expr(_) => false,
        }
    }
}

fn is_of_path(segment: &Segment) -> bool {
    match segment {
        Segment::Literal { .. } | Segment::RuleGroup(_) | Segment::CondGroup(_) => true,
        Segment::Lookup(Lookup::Nothing) => true,
        Segment::Lookup(Lookup::Variable(variable)) => matches!(
            variable,
            Variable::DocumentRoot | Variable::RequestFilename | Variable::RequestUri
        ),
        Segment::Lookup(_) | Segment::Map { .. } => false,
    }
}

/// Returns true if a variable that a rule sets has the same value for each request, or is not read.
fn is_harmless(template: &Template) -> bool {
    let is_literal = |segment: &Segment| matches!(segment, Segment::Literal { .. });
    if template.segments.iter().all(is_literal) {
        return true;
    }
    let Some(Segment::Literal { text, .. }) = template.segments.first() else { return false };
    let Some(colon) = memchr::memchr(b':', text) else { return false };
    !DECISIVE.iter().any(|name| name.eq_ignore_ascii_case(&text[..colon]))
}

#[cfg(test)]
mod tests {
    use crate::config::ModuleConfig;
    use crate::modules::rewrite::{Config, DIRECTIVES};
    use crate::modules::testing::apply;

    fn is_constant(lines: &[&str]) -> bool {
        let lines = [&["RewriteEngine On"], lines].concat();
        apply(DIRECTIVES, &lines).unwrap().of::<Config>().is_constant()
    }

    #[test]
    fn the_rules_of_wordpress_do_the_same_for_each_request_of_a_path() {
        assert!(is_constant(&[
            "RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]",
            "RewriteBase /",
            "RewriteRule ^index\\.php$ - [L]",
            "RewriteCond %{REQUEST_FILENAME} !-f",
            "RewriteCond %{REQUEST_FILENAME} !-d",
            "RewriteRule . /index.php [L]",
        ]));
        assert!(is_constant(&[
            "RewriteCond %{REQUEST_URI} ^/a",
            "RewriteRule (.*) - [E=no-gzip:1]"
        ]));
    }

    #[test]
    fn rules_that_look_at_the_request_or_at_other_files_do_not() {
        for condition in [
            "%{HTTP_USER_AGENT} x",
            "%{QUERY_STRING} ^$",
            "%{REQUEST_METHOD} GET",
            "%{HTTP:Cookie} x",
            "%{ENV:REDIRECT_STATUS} ^$",
            "%{TIME_HOUR} >10",
            "%{REQUEST_FILENAME} -s",
            "%{REQUEST_FILENAME}.gz -f",
            "%{DOCUMENT_ROOT}/cache/%{REQUEST_URI} -f",
            "%{LA-U:REQUEST_URI} x",
            "expr \"%{HTTP_HOST} == 'a'\"",
        ] {
            assert!(
                !is_constant(&[&format!("RewriteCond {condition}"), "RewriteRule . - [F]"]),
                "{condition}"
            );
        }
        for flags in [
            "E=no-gzip:%{HTTP:X}",
            "E=%{HTTP:X}:1",
            "E=%{HTTP:X}",
            "CO=a:b:c",
            "T=a/%{HTTP:X}",
            "H=x",
        ] {
            assert!(!is_constant(&[&format!("RewriteRule . - [{flags}]")]), "{flags}");
        }
    }
}
