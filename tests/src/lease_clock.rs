//! The clock of edit leases, kept by a test (see `stop.rs` of the server): it stands still until the
//! test says otherwise. Servers over one database read the same file.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::binaries;
use crate::server::Launch;

/// Where a clock begins, milliseconds.
const BEGIN: i64 = 1_000_000;

/// See the module.
pub struct LeaseClock {
    place: PathBuf,
    millis: Mutex<i64>,
}

impl LeaseClock {
    /// Makes one that stands still, and a launch whose servers go by it.
    #[must_use]
    pub fn keep(launch: Launch) -> (Self, Launch) {
        let place = launch.home().path("run/lease-clock");
        let clock = Self { place, millis: Mutex::new(BEGIN) };
        clock.write(&BEGIN.to_string());
        let launch = launch
            .binary(binaries::usherd_with_stop_points())
            .env("USHER_LEASE_CLOCK", clock.place.as_os_str());
        (clock, launch)
    }

    /// Moves it on.
    pub fn advance(&self, millis: i64) {
        let mut now = self.millis.lock().expect("nobody panics while holding it");
        *now += millis;
        self.write(&now.to_string());
    }

    /// Lets it go as the real one does, this much ahead of it.
    pub fn run_ahead(&self, millis: i64) {
        self.write(&format!("+{millis}"));
    }

    /// In one step: a server may be reading it.
    fn write(&self, said: &str) {
        let new = self.place.with_extension("new");
        fs::write(&new, said).expect("the home is writable");
        fs::rename(&new, &self.place).expect("the home is writable");
    }
}
