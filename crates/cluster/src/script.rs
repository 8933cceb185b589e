//! The script that counts a request by several rates (GCRA), its arguments and its answers.
//!
//! Valkey runs a script as one step, so counts are exact however many servers ask at once. Times
//! are those of Valkey's clock, and only differences leave it: the servers' clocks need not agree.
//! A key holds its due time as whole seconds and microseconds after them, as a number of Lua is not
//! exact enough for both together. It expires when its debt is paid.

use aws_lc_rs::digest::{SHA256, digest};
use howdah_limits::Nanos;
use howdah_limits::shared::{Answer, Claim};
use howdah_text::hex;
use redis::Value;

/// Counts a request by the rates of all keys if it conforms to all of them, and returns the debt of
/// each and its grace in microseconds: the number itself if the request conforms to that rate,
/// otherwise `-1 - number`.
///
/// Arguments of each key: interval, tolerance, longest possible debt and grace in microseconds, and
/// whether a refusal counts (`1`) or is a dry run (`0`). A value that is no due time, or is a
/// longer debt than possible, does not count: another program has written it, or the clock was set
/// back.
pub const COUNT: &str = r"
local now = redis.call('TIME')
local seconds, microseconds = tonumber(now[1]), tonumber(now[2])
local rates, refused = {}, false
for i, key in ipairs(KEYS) do
  local at = 5 * i
  local rate = {
    interval = tonumber(ARGV[at - 4]), tolerance = tonumber(ARGV[at - 3]),
    longest = tonumber(ARGV[at - 2]), grace = tonumber(ARGV[at - 1]), counts = ARGV[at] == '1'
  }
  rate.debt = -rate.grace
  local stored = redis.pcall('GET', key)
  if type(stored) == 'string' and #stored < 40 then
    local s, us = string.match(stored, '^(%d+) (%d+%.?%d*)$')
    if s then
      local debt = (tonumber(s) - seconds) * 1000000 + (tonumber(us) - microseconds)
      if debt > rate.debt and debt <= rate.longest then rate.debt = debt end
    end
  end
  rate.conforms = rate.debt + rate.interval <= rate.tolerance
  if rate.counts and not rate.conforms then refused = true end
  rates[i] = rate
end
local answer = {}
for i, key in ipairs(KEYS) do
  local rate = rates[i]
  local debt = math.floor(rate.debt + rate.grace)
  answer[i] = rate.conforms and debt or -1 - debt
  if rate.conforms and not (refused and rate.counts) then
    local due = microseconds + rate.debt + rate.interval
    local s = math.floor(due / 1000000)
    local kept = rate.debt + rate.interval + rate.grace
    redis.call('SET', key, string.format('%.0f %.3f', seconds + s, due - s * 1000000),
      'PX', string.format('%.0f', math.ceil(kept / 1000) + 1))
  end
end
return answer
";

/// Raises the debt of a key to a number of microseconds: it is blocked on all servers.
pub const BLOCK: &str = r"
local now = redis.call('TIME')
local seconds, microseconds = tonumber(now[1]), tonumber(now[2])
local stored, debt = redis.pcall('GET', KEYS[1]), tonumber(ARGV[1])
if type(stored) == 'string' and #stored < 40 then
  local s, us = string.match(stored, '^(%d+) (%d+%.?%d*)$')
  if s then
    local known = (tonumber(s) - seconds) * 1000000 + (tonumber(us) - microseconds)
    if known > debt and known <= tonumber(ARGV[2]) then return 0 end
  end
end
local due = microseconds + debt
local s = math.floor(due / 1000000)
redis.call('SET', KEYS[1], string.format('%.0f %.3f', seconds + s, due - s * 1000000),
  'PX', string.format('%.0f', math.ceil(debt / 1000) + 1))
return 1
";

/// Returns the key in Valkey. A zone has no other characters than those of a name or of a JSON
/// path; the text of a request is hashed, as it may be long, and Valkey need not know the visitors
/// of a site.
pub fn key(prefix: &str, zone: &str, text: &[u8]) -> Vec<u8> {
    let hash = digest(&SHA256, text);
    let hash = hash.as_ref().get(..16).unwrap_or_default();
    format!("{prefix}limit:{zone}:{}", hex::lower(hash)).into_bytes()
}

/// Returns a time as an argument: microseconds, exact to the nanosecond.
pub fn microseconds(time: Nanos) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}

/// Reads the answers to these claims; `None` if they are none, or impossible.
pub fn answers(value: &Value, claims: &[Claim<'_>]) -> Option<Vec<Answer>> {
    let Value::Array(values) = value else { return None };
    if values.len() != claims.len() {
        return None;
    }
    let answer = |(value, claim): (&Value, &Claim<'_>)| {
        let Value::Int(number) = value else { return None };
        let conforms = *number >= 0;
        let microseconds = if conforms { *number } else { -1 - *number };
        let (sum, grace) =
            (u64::try_from(microseconds).ok()?.checked_mul(1000)?, claim.rate().grace());
        let (debt, credit) = (sum.saturating_sub(grace), grace.saturating_sub(sum));
        // The debt is rounded down.
        let is_possible = if conforms {
            claim.rate().wait(debt) == 0
        } else {
            claim.rate().wait(debt.saturating_add(1000)) > 0
        };
        (is_possible && debt <= claim.longest_debt()).then_some(Answer { conforms, debt, credit })
    };
    values.iter().zip(claims).map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_show_the_text_of_a_request() {
        let first = key("howdah:", "login", b"192.0.2.1");
        let text = String::from_utf8(first.clone()).unwrap();
        assert!(text.starts_with("howdah:limit:login:") && text.len() == 19 + 32, "{text}");
        assert_ne!(first, key("howdah:", "login", b"192.0.2.2"));
        assert_eq!(first, key("howdah:", "login", b"192.0.2.1"));
        assert_eq!(key("p", "z", &[b'x'; 100_000]).len(), key("p", "z", b"").len());
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(microseconds(3_333_333), "3333.333");
        assert_eq!(microseconds(5), "0.005");
        assert_eq!(microseconds(u64::MAX), "18446744073709551.615");
    }
}
