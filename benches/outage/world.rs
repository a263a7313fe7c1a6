//! The world behind the gateway: three accounts, and their failures.

use std::f64::consts::TAU;

use fastrand::Rng;
use portcullis::account::failure::Class;

/// A point in virtual time, in seconds.
pub type Time = f64;

pub const LENGTH: Time = 600.0;
pub const PER_SECOND: f64 = 1000.0;
/// The time after which an attempt without a first token has failed.
pub const FIRST_TOKEN: Time = 10.0;
/// The seconds in which no account works, in any world.
pub const ALL_OUT: std::ops::Range<usize> = 480..500;

/// An account in its healthy state.
pub struct Account {
    pub name: &'static str,
    pub weight: u32,
    /// The number of requests that the account takes at once; its `concurrency` is set to that.
    /// From four fifths on, each further request is slower than the one before.
    pub capacity: usize,
    /// The time to the first token: the median in seconds, and the scatter of the logarithms.
    pub median: Time,
    pub spread: f64,
    /// The time that the account takes to answer with an error of its own.
    pub price: Time,
    /// The quota in requests a second. The account's headers say what is left of ten seconds'
    /// worth.
    pub quota: Option<f64>,
}

pub const ACCOUNTS: [Account; 3] = [
    Account {
        name: "swift",
        weight: 4,
        capacity: 2000,
        median: 0.25,
        spread: 0.35,
        price: 0.03,
        quota: None,
    },
    Account {
        name: "steady",
        weight: 3,
        capacity: 1800,
        median: 0.45,
        spread: 0.25,
        price: 0.4,
        quota: None,
    },
    Account {
        name: "frugal",
        weight: 3,
        capacity: 1800,
        median: 0.7,
        spread: 0.6,
        price: 1.5,
        quota: Some(600.0),
    },
];

/// A fault that an account has for a while.
#[derive(Clone, Copy, PartialEq)]
pub enum Trouble {
    /// The account refuses connections.
    Refused,
    /// The account answers nothing.
    Silent,
    /// A share of the requests gets a 503.
    Errors(f64),
    /// The first token takes this many times as long.
    Slow(f64),
    /// The account takes no more than this many requests a second.
    Limited(f64),
}

pub struct Episode {
    pub account: usize,
    pub from: Time,
    pub to: Time,
    pub trouble: Trouble,
}

/// Returns the times at which accounts fail.
pub fn episodes(seed: u64) -> Vec<Episode> {
    let mut random = Rng::with_seed(seed);
    let mut episodes: Vec<Episode> = (0..ACCOUNTS.len())
        .map(|account| Episode {
            account,
            from: ALL_OUT.start as Time,
            to: ALL_OUT.end as Time,
            trouble: Trouble::Refused,
        })
        .collect();
    for account in 0..ACCOUNTS.len() {
        let mut from = 20.0;
        loop {
            from += exponential(&mut random, 100.0);
            let to = from + 8.0 + 32.0 * random.f64();
            if to > LENGTH {
                break;
            }
            let trouble = match random.u32(0..5) {
                0 => Trouble::Refused,
                1 => Trouble::Silent,
                2 => Trouble::Errors(0.2 + 0.7 * random.f64()),
                3 => Trouble::Slow(4.0 + 12.0 * random.f64()),
                _ => Trouble::Limited(20.0 + 180.0 * random.f64()),
            };
            episodes.push(Episode {
                account,
                from,
                to,
                trouble,
            });
            from = to;
        }
    }
    episodes
}

/// The end of an attempt, which is known at its beginning.
#[derive(Clone, Copy)]
pub enum End {
    /// A first token after the first time, and the rest of the answer after the second.
    Token(Time, Time),
    /// A failure after this time.
    Failed(Time, Class, Option<u32>),
}

/// The accounts behind the gateway.
pub struct World<'w> {
    pub episodes: &'w [Episode],
    /// For each account, what is left of its quota, and the time when that was so.
    pub quotas: [(f64, Time); ACCOUNTS.len()],
    pub random: Rng,
}

impl World<'_> {
    fn trouble(&self, account: usize, now: Time) -> Option<Trouble> {
        self.episodes
            .iter()
            .find(|e| e.account == account && (e.from..e.to).contains(&now))
            .map(|e| e.trouble)
    }

    /// Asks an account that has `in_flight` requests in flight.
    pub fn ask(&mut self, place: usize, in_flight: usize, now: Time) -> End {
        let (account, trouble) = (&ACCOUNTS[place], self.trouble(place, now));
        match trouble {
            Some(Trouble::Refused) => return End::Failed(0.002, Class::Transient, None),
            Some(Trouble::Silent) => return End::Failed(FIRST_TOKEN, Class::Transient, None),
            Some(Trouble::Errors(share)) if self.random.f64() < share => {
                return End::Failed(account.price, Class::Transient, None);
            }
            Some(Trouble::Errors(_) | Trouble::Slow(_) | Trouble::Limited(_)) | None => {}
        }
        let limit = if let Some(Trouble::Limited(limit)) = trouble {
            Some(limit)
        } else {
            account.quota
        };
        if let Some(limit) = limit {
            let (left, at) = self.quotas[place];
            let left = (left + (now - at) * limit).min(limit * 10.0);
            if left < 1.0 {
                self.quotas[place] = (left, now);
                return End::Failed(0.05, Class::Rate, Some(self.random.u32(1..=4)));
            }
            self.quotas[place] = (left - 1.0, now);
        }
        let load = in_flight as f64 / account.capacity as f64;
        if self.random.f64() < 0.002 {
            return End::Failed(account.price, Class::Transient, None);
        }
        let slow = if let Some(Trouble::Slow(times)) = trouble {
            times
        } else {
            1.0
        };
        let first = account.median
            * (account.spread * normal(&mut self.random)).exp()
            * slow
            * (1.0 + 5.0 * (load - 0.8).max(0.0));
        if first > FIRST_TOKEN {
            return End::Failed(FIRST_TOKEN, Class::Transient, None);
        }
        End::Token(first, 0.2 + exponential(&mut self.random, 1.0))
    }

    /// Returns the headers about the account's quota.
    pub fn told(&self, place: usize, now: Time) -> Option<[(&'static str, String); 3]> {
        let (quota, (left, at)) = (ACCOUNTS[place].quota?, self.quotas[place]);
        let limit = quota * 10.0;
        let left = (left + (now - at) * quota).min(limit);
        Some([
            ("x-ratelimit-limit-requests", format!("{limit}")),
            ("x-ratelimit-remaining-requests", format!("{left:.0}")),
            (
                "x-ratelimit-reset-requests",
                format!("{:.0}ms", (limit - left).max(0.0) / limit * 10_000.0),
            ),
        ])
    }
}

pub fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -(1.0 - random.f64()).ln() * mean
}

fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos()
}
