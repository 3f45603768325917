//! Waits for a store's own threads, if the store has no call for that.

use std::thread::sleep;
use std::time::Duration;

use evendb_lab::process::ProcessUsage;

/// The interval of looks, and the number of looks in a row at which all must rest.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const QUIET_LOOKS: u32 = 4;

/// Waits until `account`, the store's text about its work, stays the same while the process neither
/// computes nor writes. Background work that is running does one of these. Work that has ended may
/// have started more, so the process must rest for a while.
pub(crate) fn wait_for_rest(account: impl Fn() -> String) {
    let look = || (account(), ProcessUsage::now());
    let (mut before, mut used_before) = look();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        sleep(LOOK_INTERVAL);
        let (now, used_now) = look();
        let rests = match (&used_before, &used_now) {
            (Some(earlier), Some(later)) => {
                let used = later.since(earlier);
                used.cpu_seconds() < LOOK_INTERVAL.as_secs_f64() / 4.0 && used.write_bytes == 0
            }
            // If the system does not tell, only the account counts.
            _ => true,
        };
        quiet = if rests && now == before { quiet + 1 } else { 0 };
        (before, used_before) = (now, used_now);
    }
}
