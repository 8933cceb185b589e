//! Several servers that share purges, limits and timers through a real Valkey or Redis.

mod hostile;
mod limits;
mod outage;
mod purges;
mod servers;
mod timers;
