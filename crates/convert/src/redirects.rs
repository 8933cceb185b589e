//! mod_alias: `Redirect` and `RedirectMatch`, as steps.

use howdah_htaccess::parse::Node;

use crate::condition::Captures;
use crate::folder::{Log, words_of};
use crate::matching::Match;
use crate::pcre::{Pattern, escape};
use crate::rules::{Action, Step};
use crate::template::{self, Names, literal};

/// Translates redirects in their order.
pub fn translate(nodes: &[&Node], log: &mut Log<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for &node in nodes {
        let words = words_of(node);
        match redirect(&node.name.to_ascii_lowercase(), &words) {
            Ok(step) => steps.push(step),
            Err((reason, Some(status))) => {
                log.refused(node, &reason);
                steps
                    .push(Step { matches: vec![Match::default()], action: Action::Refuse(status) });
            }
            Err((reason, None)) => log.left_out(node, &reason),
        }
    }
    steps
}

/// Error: the reason, and the status if the directive refuses requests.
fn redirect(name: &str, words: &[String]) -> Result<Step, (String, Option<u16>)> {
    let by_word = |word: &str| match word.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        text => text.parse::<u16>().ok(),
    };
    let (status, words) = match (name, words) {
        ("redirectpermanent", words) => (301, words),
        ("redirecttemp", words) => (302, words),
        (_, [first, rest @ ..]) => match by_word(first) {
            Some(status) => (status, rest),
            None => (302, words),
        },
        (_, words) => (302, words),
    };
    let is_redirect = (300..400).contains(&status);
    let refusal = (!is_redirect).then_some(status);
    let fail = |reason: &str| (reason.to_owned(), refusal);
    let (source, target) = match (words, is_redirect) {
        // The whole directory.
        ([], false) => (None, ""),
        ([target], true) => (None, target.as_str()),
        ([source], false) => (Some(source), ""),
        ([source, target], true) => (Some(source), target.as_str()),
        _ => return Err(fail("its arguments are not understood")),
    };
    if !is_redirect && !(400..600).contains(&status) {
        return Err(fail("routes have no page of this status"));
    }
    let matches = |uri: Option<String>| vec![Match::uri(uri.into_iter().collect())];
    let Some(source) = source else {
        if target.contains('%') {
            return Err(fail("routes do not know its variables"));
        }
        let action = answer(status, literal(target), !target.contains('?'));
        return Ok(Step { matches: matches(None), action });
    };
    if name == "redirectmatch" {
        let pattern = Pattern::parse(source).map_err(fail)?;
        let names = Names {
            first_is_whole: false,
            groups: pattern.groups,
            captures: &Captures::Unknown,
            base: None,
        };
        // A percent sign has no meaning in these targets.
        if target.contains("%{") {
            return Err(fail("routes do not know its variables"));
        }
        let template = template::parse(target, &names).map_err(|reason| (reason, refusal))?;
        let query = template.query.map(|query| format!("?{query}"));
        let keeps_query = query.is_none();
        let location = template.text + query.as_deref().unwrap_or_default();
        let uri = format!("~{}", pattern.search());
        return Ok(Step {
            matches: matches(Some(uri)),
            action: answer(status, location, keeps_query),
        });
    }
    let path = source.trim_end_matches('/');
    let tail = if source.ends_with('/') && source.len() > 1 { "/(.*)" } else { "(/.*)?" };
    let uri = format!("~(?s)^{}{tail}$", escape(path.as_bytes()));
    let (target, query) = match target.split_once('?') {
        Some(_) => return Err(fail("routes cannot add the rest of the path behind a query")),
        None => (literal(target), true),
    };
    let action = answer(status, format!("{target}${{1}}"), query);
    Ok(Step { matches: matches(Some(uri)), action })
}

fn answer(status: u16, location: String, keeps_query: bool) -> Action {
    match status {
        300..400 => Action::Redirect { status, location, keeps_query },
        status => Action::Refuse(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, line: &str) -> Result<Step, (String, Option<u16>)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        redirect(name, &words)
    }

    #[test]
    fn a_redirect_takes_the_rest_of_the_path_along() {
        let step = step("redirect", "301 /old https://new.example/x").unwrap();
        assert_eq!(step.matches[0].uri, ["~(?s)^/old(/.*)?$"]);
        let location = "https://new.example/x${1}".to_owned();
        assert_eq!(step.action, Action::Redirect { status: 301, location, keeps_query: true });
    }

    #[test]
    fn a_status_that_is_no_redirect_refuses() {
        assert_eq!(step("redirect", "gone /x").unwrap().action, Action::Refuse(410));
        assert_eq!(step("redirectmatch", "404 \\.git").unwrap().action, Action::Refuse(404));
        // What cannot be read refuses everything.
        assert_eq!(step("redirectmatch", "403 ^(?!a)").unwrap_err().1, Some(403));
        assert_eq!(step("redirectmatch", "301 ^(?!a) /b").unwrap_err().1, None);
    }
}
