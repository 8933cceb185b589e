//! Which of several servers runs a timer at a time.
//!
//! - A key for each timer and time says which server runs it. It expires when no server asks about
//!   that time any more, however much their clocks differ.
//! - A key for each timer says which server's run goes on, if no other may join it. It expires when
//!   that server no longer says so.
//!
//! A server may ask again about a time, as the answer may have been lost: it gets the same one.

use howdah_text::hex;
use redis::Value;

use crate::Counting;

/// A run of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Name of the application.
    pub application: String,
    /// Name of the job, which has no colon.
    pub job: String,
    /// Its time in seconds since 1970.
    pub time: u64,
    /// Seconds for which its time is known.
    pub keep: u64,
    /// Milliseconds for which no other run may begin unless [`Counting::hold_run`] repeats that;
    /// `None` if others may.
    pub lease: Option<u64>,
}

/// Gives a run to the server that asks first. Arguments: token, time to keep the first key in
/// milliseconds, and time to keep the second one, or 0.
const CLAIM: &str = r"
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
if ARGV[3] ~= '0' then
  local running = redis.call('GET', KEYS[2])
  if running and running ~= ARGV[1] then return 0 end
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
";

/// Says that a run goes on. Arguments: token, time to keep the key in milliseconds.
const HOLD: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
";

/// Says that a run has ended. Argument: token.
const END: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
";

impl Counting {
    /// Asks whether this server runs a timer. Returns what the run is known by if it does. Error: the
    /// reason why there is no answer.
    pub async fn claim_run(&self, run: &Run) -> Result<Option<String>, String> {
        let token = format!("{}-{}", hex::lower(self.sender()), run.time);
        let of_time = format!("timer:{}:{}:{}", run.job, run.time, run.application);
        let keep = run.keep.saturating_mul(1000).to_string();
        let lease = run.lease.unwrap_or(0).to_string();
        let names = [of_time, running_name(&run.application, &run.job)];
        match self.run_script(CLAIM, &names, &[&token, &keep, &lease]).await? {
            Value::Int(1) => Ok(Some(token)),
            Value::Int(0) => Ok(None),
            _ => Err("it sends bytes that are no answer".to_owned()),
        }
    }

    /// Says that a run goes on for another time of milliseconds.
    pub async fn hold_run(&self, application: &str, job: &str, token: &str, lease: u64) {
        let names = [running_name(application, job)];
        // Where that is lost, others wait for a run that goes on only as long as the key exists.
        let _ = self.run_script(HOLD, &names, &[token, &lease.to_string()]).await;
    }

    /// Says that a run has ended.
    pub async fn end_run(&self, application: &str, job: &str, token: &str) {
        let names = [running_name(application, job)];
        // Where that is lost, the key expires.
        let _ = self.run_script(END, &names, &[token]).await;
    }
}

/// Returns the name of the key for a run that goes on.
fn running_name(application: &str, job: &str) -> String {
    format!("timer:{job}:running:{application}")
}
