//! Rates of several servers together: the questions of a server to the common counter, and the
//! effect of the answers.
//!
//! A request is first counted here. If it conforms here, the common counter is asked, which has the
//! requests of all servers. Its answer is final: a request that it refuses is taken back here, and
//! the debt that it knows is learnt, so that further requests are refused without a question until
//! they may conform. Without an answer the decision made here stands.

use crate::Nanos;
use crate::gcra::Rate;
use crate::key::KeyHash;
use crate::rules::{Admission, Refusal, Rule};

/// A request that a rule has counted.
#[derive(Debug)]
pub struct Claim<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) rate: Rate,
    pub(crate) key: KeyHash,
    /// Text of the key; `None` if the rate is of this server alone.
    pub(crate) text: Option<Box<[u8]>>,
}

/// Answer of the common counter to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The request conforms to the rate of all servers.
    pub conforms: bool,
    /// Time by which the due time of the key was ahead, before the request.
    pub debt: Nanos,
    /// Time by which it was behind, which counts for the next requests.
    pub credit: Nanos,
}

/// A request that this server admits, and the rules that have counted it.
#[derive(Debug, Default)]
pub struct Checked<'r> {
    /// The admission.
    pub admission: Admission,
    pub(crate) claims: Vec<Claim<'r>>,
}

impl Claim<'_> {
    /// Returns the name of the zone.
    pub fn zone(&self) -> &str {
        self.rule.zone_name()
    }

    /// Returns the text of the key.
    pub fn text(&self) -> &[u8] {
        self.text.as_deref().unwrap_or_default()
    }

    /// Returns the rate.
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Returns true if a refusal is only counted.
    pub fn is_dry_run(&self) -> bool {
        self.rule.is_dry_run()
    }

    /// Returns the longest possible debt of a key: that of a used quota, or of the longest penalty.
    pub fn longest_debt(&self) -> Nanos {
        self.rule.longest_debt(&self.rate)
    }

    fn refuse(&self, answer: &Answer, now: Nanos) -> Box<Refusal> {
        self.rule.refuse_shared(&self.rate, self.key, self.text(), answer.debt, now)
    }
}

impl<'r> Checked<'r> {
    /// Returns true if the common counter has to be asked.
    pub fn is_shared(&self) -> bool {
        self.claims.iter().any(|claim| claim.text.is_some())
    }

    /// Removes and returns the claims for the common counter. Those of this server alone stay.
    pub fn take_shared(&mut self) -> Vec<Claim<'r>> {
        let (shared, own) = self.claims.drain(..).partition(|claim| claim.text.is_some());
        self.claims = own;
        shared
    }

    /// Carries out the answers to shared claims. `sent_at` is the time at which the counter was
    /// asked.
    pub fn settle(
        mut self,
        shared: Vec<Claim<'r>>,
        answers: &[Answer],
        sent_at: Nanos,
        now: Nanos,
    ) -> Result<Admission, Box<Refusal>> {
        let answered = || shared.iter().zip(answers);
        let refused_by = answered().find(|(claim, answer)| !answer.conforms && !claim.is_dry_run());
        for (claim, answer) in answered() {
            let is_counted = answer.conforms && (refused_by.is_none() || claim.is_dry_run());
            let counted = if is_counted { claim.rate.interval() } else { 0 };
            // The counter was asked after `sent_at`, so a request conforms there no earlier than
            // this due time says. A later one would refuse requests that conform.
            let due = sent_at.saturating_add(answer.debt).saturating_add(counted);
            let due = due.saturating_sub(answer.credit);
            if !is_counted {
                claim.rule.take_back(claim.key, now);
            }
            claim.rule.learn(&claim.rate, claim.key, due, now);
            match answer.conforms {
                true => claim.rule.admit_shared(&claim.rate, answer.debt, &mut self.admission),
                false if claim.is_dry_run() => drop(claim.refuse(answer, now)),
                false => {}
            }
        }
        let Some((claim, answer)) = refused_by else { return Ok(self.admission) };
        self.claims.iter().for_each(|own| own.rule.take_back(own.key, now));
        Err(claim.refuse(answer, now))
    }
}
