//! Listeners that speak TLS, and where their certificates come from.

mod acme;
mod certificates;
mod listeners;
mod serve_https;
