//! A shorter document, whose answers are the same.
//!
//! An importer writes a route for each block of the original. Here, names for the same steps become
//! one, steps of a route that a single step leads to take the place of that step, and neighbouring
//! steps with the same action become one. A document stays as it is where a rule cannot show that
//! every request has the same answer.

mod actions;
mod inline;
mod names;
mod neighbours;
mod order;
mod parameters;

use serde_json::{Map, Value};

/// An object of a document.
type Object = Map<String, Value>;

/// Maximum number of times that the rules are applied.
const MAX_ROUNDS: usize = 8;

/// Shortens a document.
pub fn shorten(document: &mut Value) {
    if actions::targets(document).any(|target| target.starts_with("routes/$")) {
        // Requests choose among the routes.
        return;
    }
    parameters::share(document);
    for _ in 0..MAX_ROUNDS {
        let has_renamed = names::join(document);
        let has_moved = inline::inline(document);
        let has_merged = neighbours::merge(document);
        if !(has_renamed || has_moved || has_merged) {
            break;
        }
    }
    order::order(document);
}

#[cfg(test)]
mod tests;
