//! The response cache: what it stores and sends, for whom, and how it is purged.

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
