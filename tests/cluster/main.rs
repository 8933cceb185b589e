//! Several servers that share purges and limits through a real Valkey or Redis.

mod hostile;
mod limits;
mod outage;
mod purges;
mod servers;
