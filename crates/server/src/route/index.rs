//! Which steps of a long route can hold for a request at all.
//!
//! Most conditions demand a certain path, start or end of it, or a certain host. Such steps are
//! found by looking the request's own path and host up, so that a route with a thousand of them
//! costs little more than one with ten. Which steps are left, and their order, is the same as if
//! each had been compared.

use std::collections::HashMap;

use howdah_config::{Landmarks, Match};

use crate::message::Request;

/// Below so many steps comparing each is as fast.
const WORTHWHILE: usize = 12;

/// Steps by what they demand.
#[derive(Debug, Default)]
pub struct Index {
    paths: Texts,
    hosts: Texts,
    starts: Affixes,
    ends: Affixes,
    /// Steps that demand nothing of that kind.
    others: Vec<u32>,
}

/// Steps by a text.
type Texts = HashMap<Box<[u8]>, Vec<u32>>;

/// Steps by a start or an end, and how long these are.
#[derive(Debug, Default)]
struct Affixes {
    steps: Texts,
    lengths: Vec<usize>,
}

impl Index {
    /// An index of these conditions; `None` if there are so few that it would not pay.
    pub fn new<'m>(conditions: impl ExactSizeIterator<Item = &'m Match> + Clone) -> Option<Self> {
        if conditions.len() < WORTHWHILE {
            return None;
        }
        let demands: Vec<_> = conditions.map(Demands::of).collect();
        let crowds = Crowds::of(&demands);
        let mut index = Index::default();
        for (step, demands) in (0..).zip(&demands) {
            match demands.best(&crowds) {
                Some(Demand::Path(texts)) => add(&mut index.paths, texts, step),
                Some(Demand::Host(texts)) => add(&mut index.hosts, texts, step),
                Some(Demand::Start(texts)) => add(&mut index.starts.steps, texts, step),
                Some(Demand::End(texts)) => add(&mut index.ends.steps, texts, step),
                None => index.others.push(step),
            }
        }
        index.starts.measure();
        index.ends.measure();
        Some(index)
    }

    /// Puts the steps that can hold into `steps`, in order.
    pub fn candidates(&self, request: &Request, steps: &mut Vec<u32>) {
        steps.clear();
        steps.extend_from_slice(&self.others);
        let mut add = |texts: &Texts, text: &[u8]| {
            steps.extend_from_slice(texts.get(text).map_or(&[], Vec::as_slice));
        };
        add(&self.paths, &request.path);
        add(&self.hosts, &request.host);
        for length in &self.starts.lengths {
            let Some(start) = request.path.get(..*length) else { break };
            add(&self.starts.steps, start);
        }
        for length in &self.ends.lengths {
            let Some(at) = request.path.len().checked_sub(*length) else { break };
            add(&self.ends.steps, request.path.get(at..).unwrap_or_default());
        }
        steps.sort_unstable();
        steps.dedup();
    }
}

impl Affixes {
    fn measure(&mut self) {
        self.lengths = self.steps.keys().map(|text| text.len()).collect();
        self.lengths.sort_unstable();
        self.lengths.dedup();
    }
}

fn add(texts: &mut Texts, demanded: &[&[u8]], step: u32) {
    for text in demanded {
        let steps = texts.entry((*text).into()).or_default();
        // The same text twice in one list.
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
}

/// What a step demands of path and host.
struct Demands<'m> {
    path: Option<Landmarks<'m>>,
    host: Option<Vec<&'m [u8]>>,
}

/// What of it the step is looked up by.
enum Demand<'d> {
    Path(&'d [&'d [u8]]),
    Host(&'d [&'d [u8]]),
    Start(&'d [&'d [u8]]),
    End(&'d [&'d [u8]]),
}

/// How many steps demand the same text.
struct Crowds<'m> {
    paths: HashMap<&'m [u8], usize>,
    hosts: HashMap<&'m [u8], usize>,
}

impl<'m> Demands<'m> {
    fn of(conditions: &'m Match) -> Self {
        let host = conditions.host.as_ref().and_then(|host| host.landmarks());
        Demands {
            path: conditions.uri.as_ref().and_then(|uri| uri.landmarks()),
            host: match host {
                Some(Landmarks::Whole(texts)) => Some(texts),
                _ => None,
            },
        }
    }

    /// A whole text before a part of one; of path and host the one that fewer steps share.
    fn best(&self, crowds: &Crowds<'_>) -> Option<Demand<'_>> {
        let crowd = |counts: &HashMap<&[u8], usize>, texts: &[&[u8]]| {
            texts.iter().filter_map(|text| counts.get(text).copied()).max().unwrap_or(0)
        };
        match (&self.path, &self.host) {
            (Some(Landmarks::Whole(paths)), Some(hosts))
                if crowd(&crowds.hosts, hosts) < crowd(&crowds.paths, paths) =>
            {
                Some(Demand::Host(hosts))
            }
            (Some(Landmarks::Whole(paths)), _) => Some(Demand::Path(paths)),
            (_, Some(hosts)) => Some(Demand::Host(hosts)),
            (Some(Landmarks::Start(texts)), None) => Some(Demand::Start(texts)),
            (Some(Landmarks::End(texts)), None) => Some(Demand::End(texts)),
            (None, None) => None,
        }
    }
}

impl<'m> Crowds<'m> {
    fn of(demands: &[Demands<'m>]) -> Self {
        let mut crowds = Crowds { paths: HashMap::new(), hosts: HashMap::new() };
        for demands in demands {
            if let Some(Landmarks::Whole(paths)) = &demands.path {
                paths.iter().for_each(|path| *crowds.paths.entry(*path).or_default() += 1);
            }
            for host in demands.host.iter().flatten() {
                *crowds.hosts.entry(*host).or_default() += 1;
            }
        }
        crowds
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::route::fixture::request;
    use crate::route::matching::{Scratch, holds};

    fn conditions(list: &[String]) -> Vec<Match> {
        let step = |json: &String| format!(r#"{{"match": {json}, "action": {{"return": 200}}}}"#);
        let steps: Vec<_> = list.iter().map(step).collect();
        let document = format!(r#"{{"routes": [{}]}}"#, steps.join(","));
        let mut config = howdah_config::parse(document.as_bytes()).unwrap();
        config.routes.remove(0).steps.into_iter().map(|step| step.conditions).collect()
    }

    fn candidates(list: &[String], target: &str, host: &'static str) -> Vec<u32> {
        let conditions = conditions(list);
        let index = Index::new(conditions.iter()).expect("an index");
        let mut request = request(target, &[]);
        request.host = Bytes::from_static(host.as_bytes());
        let mut steps = vec![7; 3];
        index.candidates(&request, &mut steps);
        steps
    }

    #[test]
    fn of_a_thousand_steps_only_those_that_can_hold_are_compared() {
        let mut list: Vec<_> = (0..250).map(|n| format!(r#"{{"uri": "/p{n}"}}"#)).collect();
        list.extend((0..250).map(|n| format!(r#"{{"uri": ["/s{n}/*", "/t{n}/*"]}}"#)));
        list.extend((0..250).map(|n| format!(r#"{{"uri": "*.e{n}"}}"#)));
        list.extend((0..250).map(|n| format!(r#"{{"uri": "/", "host": "h{n}.org"}}"#)));
        list.push(r#"{"method": "GET"}"#.to_owned());
        for (target, host, expected) in [
            ("/p17", "h3.org", &[17, 753, 1000][..]),
            ("/t9/x.e30", "x", &[259, 530, 1000]),
            ("/", "h249.org", &[999, 1000]),
            ("/nothing", "x", &[1000]),
        ] {
            assert_eq!(candidates(&list, target, host), expected, "{target} {host}");
        }
    }

    #[test]
    fn a_short_route_has_no_index() {
        let list = vec![r#"{"uri": "/"}"#.to_owned(); WORTHWHILE - 1];
        assert!(Index::new(conditions(&list).iter()).is_none());
    }

    fn pattern() -> impl Strategy<Value = String> {
        let text = "[ab/]{0,3}";
        prop_oneof![
            4 => text.prop_map(|text| text.to_string()),
            2 => text.prop_map(|text| format!("{text}*")),
            2 => text.prop_map(|text| format!("*{text}")),
            1 => (text, text).prop_map(|(start, end)| format!("{start}*{end}")),
            1 => text.prop_map(|text| format!("!{text}")),
            1 => text.prop_map(|text| format!("~^{text}")),
        ]
    }

    fn one_match() -> impl Strategy<Value = String> {
        let patterns = || prop::collection::vec(pattern(), 0..3);
        (prop::option::of(patterns()), prop::option::of(patterns())).prop_map(|(uri, host)| {
            let member = |key: &str, list: Option<Vec<String>>| {
                list.map(|list| format!("\"{key}\": {list:?}"))
            };
            let members: Vec<_> =
                [member("uri", uri), member("host", host)].into_iter().flatten().collect();
            format!("{{{}}}", members.join(","))
        })
    }

    proptest! {
        #[test]
        fn no_step_that_holds_is_left_out(
            list in prop::collection::vec(one_match(), WORTHWHILE..30),
            path in "/[ab/]{0,4}",
            host in "[ab]{0,3}",
        ) {
            let conditions = conditions(&list);
            let index = Index::new(conditions.iter()).expect("an index");
            let mut request = request("/", &[]);
            request.path = path.into_bytes().into();
            request.host = host.into_bytes().into();
            let mut steps = Vec::new();
            index.candidates(&request, &mut steps);
            prop_assert!(steps.is_sorted());
            let mut scratch = Scratch::default();
            for (step, conditions) in (0..).zip(&conditions) {
                if holds(conditions, &request, Instant::now(), &mut scratch) {
                    prop_assert!(steps.contains(&step), "step {} of {:?}", step, list);
                }
            }
        }
    }
}
