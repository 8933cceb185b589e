//! The response cache: the responses that it stores and sends, their clients, and purges.

mod attacks;
mod certificates;
mod concurrent;
mod conditions;
mod conformance;
mod control;
mod corners;
mod disk;
mod esi;
mod exchanges;
mod failures;
mod large;
mod origin;
mod presets;
mod purging;
mod rules;
mod search;
mod settings;
mod words;
