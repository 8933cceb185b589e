//! Index of a long route: finds the steps that can hold for a request.
//!
//! Most conditions require a certain path or host, or a prefix or suffix of one. Steps with one are
//! found by a look-up of the request's path and host, so that a route with a thousand of them costs
//! little more than one with ten. The result and its order are the same as if each step were
//! compared. Other steps (other conditions only, regular expressions without an anchor) are
//! compared each time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::marker::PhantomData;

use howdah_config::{Match, RequiredTexts};
use howdah_http::message::Request;

/// Minimum number of indexed steps. With 12 steps of one kind of which the last holds, an index
/// saves 13 to 110 ns; with 8, at most half as much. If one of the first steps holds, or kinds are
/// mixed, it costs as much (`cargo bench -p howdah-routing`).
const MIN_INDEXED_STEPS: usize = 12;

/// Index of a route's steps by the path or host that their conditions require.
#[derive(Debug, Default)]
pub struct Index {
    path: Texts,
    host: Texts,
    /// Steps that require neither a path nor a host.
    others: Vec<u32>,
}

/// Steps by the text that they require of a path or host.
#[derive(Debug, Default)]
struct Texts {
    whole: HashMap<Box<[u8]>, Vec<u32>>,
    starts: Affixes<Forwards>,
    ends: Affixes<Backwards>,
}

/// Prefixes or suffixes in order; all those of a text are found with one binary search.
#[derive(Debug)]
struct Affixes<D> {
    affixes: Vec<Affix>,
    direction: PhantomData<D>,
}

#[derive(Debug)]
struct Affix {
    text: Box<[u8]>,
    /// The longest other affix that is an affix of this one.
    within: Option<usize>,
    steps: Vec<u32>,
}

/// End from which texts are compared.
trait Direction {
    fn compare(a: &[u8], b: &[u8]) -> Ordering;
    fn has(text: &[u8], affix: &[u8]) -> bool;
}

/// Compares from the start, for prefixes.
#[derive(Debug)]
struct Forwards;

/// Compares from the end, for suffixes.
#[derive(Debug)]
struct Backwards;

impl Direction for Forwards {
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn has(text: &[u8], affix: &[u8]) -> bool {
        text.starts_with(affix)
    }
}

impl Direction for Backwards {
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.iter().rev().cmp(b.iter().rev())
    }

    fn has(text: &[u8], affix: &[u8]) -> bool {
        text.ends_with(affix)
    }
}

impl Index {
    /// Creates an index of these conditions; `None` if there are fewer than `MIN_INDEXED_STEPS`.
    pub fn if_worthwhile<'m>(conditions: impl Iterator<Item = &'m Match> + Clone) -> Option<Self> {
        let found = conditions.clone().filter(|one| Demands::of(one).each().next().is_some());
        (found.count() >= MIN_INDEXED_STEPS).then(|| Index::new(conditions))
    }

    /// Creates an index of these conditions.
    pub fn new<'m>(conditions: impl Iterator<Item = &'m Match>) -> Self {
        let demands: Vec<_> = conditions.map(Demands::of).collect();
        let mut crowds = Crowds::new();
        demands.iter().flat_map(Demands::all).for_each(|(demand, text)| {
            *crowds.entry((demand, text)).or_default() += 1;
        });
        let mut index = Index::default();
        let mut affixes: HashMap<(Demand, &[u8]), Vec<u32>> = HashMap::new();
        for (step, demands) in (0..).zip(&demands) {
            let Some((subject, landmarks)) = demands.best(&crowds) else {
                index.others.push(step);
                continue;
            };
            for text in landmarks.texts() {
                let steps = affixes.entry((Demand::of(subject, landmarks), text)).or_default();
                // The same text may occur twice in one list.
                if steps.last() != Some(&step) {
                    steps.push(step);
                }
            }
        }
        for ((Demand { subject, kind }, text), steps) in affixes {
            let texts = match subject {
                Subject::Path => &mut index.path,
                Subject::Host => &mut index.host,
            };
            match kind {
                Kind::Whole => drop(texts.whole.insert(text.into(), steps)),
                Kind::Start => texts.starts.add(text, steps),
                Kind::End => texts.ends.add(text, steps),
            }
        }
        for texts in [&mut index.path, &mut index.host] {
            texts.starts.order();
            texts.ends.order();
        }
        index
    }

    /// Writes the numbers of the steps that can hold to `steps`, in order.
    pub fn candidates(&self, request: &Request, steps: &mut Vec<u32>) {
        steps.clear();
        steps.extend_from_slice(&self.others);
        self.path.find(&request.path, steps);
        self.host.find(&request.host, steps);
        steps.sort_unstable();
        steps.dedup();
    }
}

impl Texts {
    fn find(&self, text: &[u8], steps: &mut Vec<u32>) {
        steps.extend_from_slice(self.whole.get(text).map_or(&[], Vec::as_slice));
        self.starts.find(text, steps);
        self.ends.find(text, steps);
    }
}

impl<D: Direction> Default for Affixes<D> {
    fn default() -> Self {
        Affixes { affixes: Vec::new(), direction: PhantomData }
    }
}

impl<D: Direction> Affixes<D> {
    fn add(&mut self, text: &[u8], steps: Vec<u32>) {
        self.affixes.push(Affix { text: text.into(), within: None, steps });
    }

    /// Sorts the affixes. Call it once after the last one is added.
    fn order(&mut self) {
        self.affixes.sort_unstable_by(|a, b| D::compare(&a.text, &b.text));
        for place in 1..self.affixes.len() {
            let text = self.affixes[place].text.clone();
            self.affixes[place].within = self.longest(&text, Some(place - 1));
        }
    }

    /// Adds the steps of all affixes of a text. All of them sort before the text, and each is an
    /// affix of the next longer one, so the chain of `within` from the last affix before the text
    /// visits all of them.
    fn find(&self, text: &[u8], steps: &mut Vec<u32>) {
        let after = self.affixes.partition_point(|affix| D::compare(&affix.text, text).is_le());
        let mut found = self.longest(text, after.checked_sub(1));
        while let Some(affix) = found.and_then(|place| self.affixes.get(place)) {
            steps.extend_from_slice(&affix.steps);
            found = affix.within;
        }
    }

    /// Follows the chain of `within` from `place` to the first affix of the text.
    fn longest(&self, text: &[u8], mut place: Option<usize>) -> Option<usize> {
        while let Some(affix) = place.and_then(|place| self.affixes.get(place)) {
            if D::has(text, &affix.text) {
                break;
            }
            place = affix.within;
        }
        place
    }
}

/// Texts that one step requires.
struct Demands<'m> {
    path: Option<RequiredTexts<'m>>,
    host: Option<RequiredTexts<'m>>,
}

/// Key under which a step is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Demand {
    subject: Subject,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Subject {
    Path,
    Host,
}

/// Kinds of required texts, the most exact first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Whole,
    Start,
    End,
}

/// Number of steps with the same key.
type Crowds<'d> = HashMap<(Demand, &'d [u8]), usize>;

impl Demand {
    fn of(subject: Subject, landmarks: &RequiredTexts<'_>) -> Self {
        let kind = match landmarks {
            RequiredTexts::Whole(_) => Kind::Whole,
            RequiredTexts::Start(_) => Kind::Start,
            RequiredTexts::End(_) => Kind::End,
        };
        Demand { subject, kind }
    }
}

impl<'m> Demands<'m> {
    fn of(conditions: &'m Match) -> Self {
        Demands {
            path: conditions.uri.as_ref().and_then(|uri| uri.required_texts()),
            host: conditions.host.as_ref().and_then(|host| host.required_texts()),
        }
    }

    fn each(&self) -> impl Iterator<Item = (Subject, &RequiredTexts<'m>)> {
        let path = self.path.as_ref().map(|path| (Subject::Path, path));
        path.into_iter().chain(self.host.as_ref().map(|host| (Subject::Host, host)))
    }

    fn all(&self) -> impl Iterator<Item = (Demand, &[u8])> {
        self.each().flat_map(|(subject, landmarks)| {
            landmarks.texts().map(move |text| (Demand::of(subject, landmarks), text))
        })
    }

    /// Chooses path or host for the key of a step: the text that fewer steps share, or else the
    /// more exact one.
    fn best(&self, crowds: &Crowds<'_>) -> Option<(Subject, &RequiredTexts<'m>)> {
        self.each().min_by_key(|(subject, landmarks)| {
            let demand = Demand::of(*subject, landmarks);
            let crowd = landmarks.texts().filter_map(|text| crowds.get(&(demand, text)));
            (crowd.max().copied(), demand.kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::route::matching::{Scratch, holds};
    use howdah_http::fixture::request;

    fn conditions(list: &[String]) -> Vec<Arc<Match>> {
        let step = |json: &String| format!(r#"{{"match": {json}, "action": {{"return": 200}}}}"#);
        let steps: Vec<_> = list.iter().map(step).collect();
        let document = format!(r#"{{"routes": [{}]}}"#, steps.join(","));
        let mut config = howdah_config::parse(document.as_bytes()).unwrap();
        config.routes.remove(0).steps.into_iter().map(|step| step.conditions).collect()
    }

    fn candidates(list: &[String], target: &str, host: &'static str) -> Vec<u32> {
        let conditions = conditions(list);
        let index = Index::new(conditions.iter().map(|one| &**one));
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
    fn a_route_with_few_steps_to_look_up_has_no_index() {
        let mut list = vec![r#"{"uri": "/"}"#.to_owned(); MIN_INDEXED_STEPS - 1];
        list.extend(vec![r#"{"method": "GET"}"#.to_owned(); 50]);
        let has_index = |list: &[String]| {
            Index::if_worthwhile(conditions(list).iter().map(|one| &**one)).is_some()
        };
        assert!(!has_index(&list));
        list.push(r#"{"host": "a"}"#.to_owned());
        assert!(has_index(&list));
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
            list in prop::collection::vec(one_match(), 1..30),
            path in "/[ab/]{0,4}",
            host in "[ab]{0,3}",
        ) {
            let conditions = conditions(&list);
            let index = Index::new(conditions.iter().map(|one| &**one));
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
