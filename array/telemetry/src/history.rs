//! Samples over time, in tiers of growing intervals and bounded length.

use crate::sample::Sample;
use crate::totals::ActivityTotals;
use std::collections::VecDeque;

/// Interval and length of one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Time between two samples (ms).
    pub step_ms: u64,
    /// Maximum number of samples.
    pub count: usize,
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl Tier {
    /// Tiers of the array and its ports: an hour, a day, 30 days, a year.
    pub const ARRAY: &'static [Self] = &[
        Self { step_ms: 2 * SECOND, count: 1800 },
        Self { step_ms: 30 * SECOND, count: 2880 },
        Self { step_ms: 5 * MINUTE, count: 8640 },
        Self { step_ms: 2 * HOUR, count: 4392 },
    ];
    /// Tiers of a volume or host: two hours, a day, 30 days.
    pub const OBJECT: &'static [Self] = &[
        Self { step_ms: 30 * SECOND, count: 240 },
        Self { step_ms: 5 * MINUTE, count: 288 },
        Self { step_ms: 2 * HOUR, count: 360 },
    ];
}

/// A tier with its samples and the activity since the last one.
struct TierSamples {
    tier: Tier,
    samples: VecDeque<(u64, Sample)>,
    since_ms: u64,
    activity: ActivityTotals,
}

/// Samples of one object.
pub struct History {
    tiers: Vec<TierSamples>,
}

impl History {
    /// Creates an empty history that begins at `now_ms`.
    pub fn new(tiers: &[Tier], now_ms: u64) -> Self {
        let empty = |tier: &Tier| TierSamples {
            tier: *tier,
            samples: VecDeque::new(),
            since_ms: now_ms,
            activity: ActivityTotals::default(),
        };
        Self { tiers: tiers.iter().map(empty).collect() }
    }

    /// Adds the activity of an interval that ends at `now_ms` (ms since 1970). A clock that is set
    /// back discards the incomplete samples.
    pub fn add(&mut self, activity: &ActivityTotals, now_ms: u64) {
        for TierSamples { tier, samples, since_ms, activity: sum } in &mut self.tiers {
            if now_ms < *since_ms {
                (*since_ms, *sum) = (now_ms, ActivityTotals::default());
            }
            sum.add(activity);
            let millis = now_ms - *since_ms;
            if millis >= tier.step_ms {
                if samples.len() >= tier.count {
                    samples.pop_front();
                }
                samples.push_back((now_ms, Sample::of(sum, millis)));
                (*since_ms, *sum) = (now_ms, ActivityTotals::default());
            }
        }
    }

    /// Returns the samples that end from `start_ms` to `end_ms`, as (ms since 1970, sample), oldest
    /// first. They are at least `resolution_ms` apart.
    ///
    /// Of the tiers that reach back to `start_ms`, or to the beginning of the history, the coarsest
    /// is used whose interval is at most `resolution_ms`, or else the finest.
    pub fn between(&self, start_ms: u64, end_ms: u64, resolution_ms: u64) -> Vec<(u64, Sample)> {
        let front = |tier: &TierSamples| tier.samples.front().map(|(time, _)| *time);
        let begin = self.tiers.iter().filter_map(|tier| Some(front(tier)?.saturating_sub(tier.tier.step_ms))).min();
        let start = start_ms.max(begin.unwrap_or(0));
        let reaches =
            |tier: &&TierSamples| front(tier).is_some_and(|front| front <= start.saturating_add(2 * tier.tier.step_ms));
        let reaching = || self.tiers.iter().filter(reaches);
        let coarse = reaching().filter(|tier| tier.tier.step_ms <= resolution_ms).max_by_key(|tier| tier.tier.step_ms);
        let Some(tier) = coarse.or_else(|| reaching().next()) else { return Vec::new() };
        let mut last = None;
        let is_wanted = |(time, _): &&(u64, Sample)| {
            let is_spaced = last.is_none_or(|last: u64| time.saturating_sub(last) >= resolution_ms);
            let is_wanted = (start_ms..=end_ms).contains(time) && is_spaced;
            last = if is_wanted { Some(*time) } else { last };
            is_wanted
        };
        tier.samples.iter().filter(is_wanted).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::CommandClass;
    use crate::totals::ClassTotals;

    fn reads(commands: u64) -> ActivityTotals {
        ActivityTotals::from_fn(|class| match class {
            CommandClass::Read => ClassTotals {
                commands,
                bytes: commands * 4096,
                nanoseconds: commands * 50_000,
                ..ClassTotals::default()
            },
            _ => ClassTotals::default(),
        })
    }

    #[test]
    fn tiers_hold_rates_of_their_intervals() {
        let mut history = History::new(Tier::ARRAY, 0);
        for second in 1..=60 {
            history.add(&reads(if second <= 30 { 100 } else { 300 }), second * 2 * SECOND);
        }
        let fine = history.between(0, u64::MAX, 0);
        assert_eq!((fine.len(), fine[0].0, fine[0].1.read.ops), (60, 2 * SECOND, 50.0));
        let coarse = history.between(0, u64::MAX, 30 * SECOND);
        let ops: Vec<f32> = coarse.iter().map(|(_, sample)| sample.read.ops).collect();
        assert_eq!(ops, [50.0, 50.0, 150.0, 150.0]);
        let between = history.between(0, u64::MAX, MINUTE);
        assert_eq!(between.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [30 * SECOND, 90 * SECOND]);
        assert_eq!(history.between(0, u64::MAX, HOUR).len(), 1);
        assert_eq!((coarse[0].1.read.usec, coarse[0].1.read.bytes), (50.0, 50.0 * 4096.0));
    }

    #[test]
    fn tiers_are_bounded_and_older_times_use_coarser_ones() {
        let mut history = History::new(Tier::ARRAY, 0);
        for second in 1..=3 * 3600 {
            history.add(&reads(1), second * SECOND);
        }
        assert!(history.tiers.iter().all(|tier| tier.samples.len() <= tier.tier.count));
        let end = 3 * HOUR;
        let recent = history.between(end - 10 * MINUTE, end, 0);
        assert_eq!(recent[1].0 - recent[0].0, 2 * SECOND);
        let older = history.between(end - 2 * HOUR, end, 0);
        assert_eq!(older[1].0 - older[0].0, 30 * SECOND);
    }

    #[test]
    fn clock_set_back_gives_no_wrong_rate() {
        let mut history = History::new(Tier::ARRAY, 100 * SECOND);
        history.add(&reads(10), 50 * SECOND);
        history.add(&reads(10), 52 * SECOND);
        let samples = history.between(0, u64::MAX, 0);
        assert_eq!((samples.len(), samples[0].1.read.ops), (1, 10.0));
    }
}
