//! Runs a campaign of many seeds on several threads.

use crate::history::SimViolation;
use crate::injected_bug::InjectedBug;
use crate::run::{RunPlan, run};
use crate::subject::SimSubject;
use crate::totals::Totals;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct CrashCampaign {
    /// First seed; each run uses the next one.
    pub seed: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of threads. Does not change the result.
    pub jobs: usize,
    /// Bug to inject into the drive.
    pub bug: Option<InjectedBug>,
    /// Number of violations after which the campaign ends.
    pub most_violations: usize,
}

/// Result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct CampaignFindings {
    /// Sums over all runs.
    pub totals: Totals,
    /// Seeds whose run violated an invariant, in ascending order.
    pub violations: Vec<(u64, SimViolation)>,
}

/// Callback after each run: the sums so far, and the seed and the violation if there was one.
pub type CampaignProgress<'a> = dyn Fn(&Totals, Option<(u64, &SimViolation)>) + Sync + 'a;

/// Executes the runs of a campaign and calls `progress` after each of them.
pub fn execute<S: SimSubject>(campaign: &CrashCampaign, progress: &CampaignProgress<'_>) -> CampaignFindings {
    let next = AtomicU64::new(0);
    // Number of the first run that must not start.
    let end = AtomicU64::new(campaign.runs);
    let ended: Mutex<Vec<(u64, Totals, Option<SimViolation>)>> = Mutex::new(Vec::new());
    let sums = Mutex::new(Totals::default());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end.load(Ordering::Relaxed) {
                return;
            }
            let plan = RunPlan { bug: campaign.bug, ..RunPlan::new(campaign.seed.wrapping_add(number)) };
            let report = run::<S>(&plan);
            let totals = {
                let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                sums.add(&report.totals);
                *sums
            };
            progress(&totals, report.violation.as_ref().map(|violation| (plan.seed, violation)));
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push((number, report.totals, report.violation));
            let mut broken: Vec<u64> =
                ended.iter().filter(|(_, _, violation)| violation.is_some()).map(|(number, ..)| *number).collect();
            broken.sort_unstable();
            if let Some(last) = broken.get(campaign.most_violations.max(1) - 1) {
                end.fetch_min(last + 1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..campaign.jobs.max(1)).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    // With more threads, more runs start after the last counted violation. Drop them, so that the
    // result does not depend on the number of threads.
    ended.retain(|(number, ..)| *number < end.load(Ordering::Relaxed));
    ended.sort_by_key(|(number, ..)| *number);
    let mut findings = CampaignFindings::default();
    for (number, totals, violation) in ended {
        findings.totals.add(&totals);
        findings.violations.extend(violation.map(|violation| (campaign.seed.wrapping_add(number), violation)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty_model::{DROPS_LAST_OP, FaultyModel};

    #[test]
    fn campaign_result_is_independent_of_threads() {
        let campaign = CrashCampaign { seed: 1, runs: 40, jobs: 1, bug: None, most_violations: 3 };
        let one = execute::<FaultyModel<DROPS_LAST_OP>>(&campaign, &|_, _| {});
        let many = execute::<FaultyModel<DROPS_LAST_OP>>(&CrashCampaign { jobs: 3, ..campaign }, &|_, _| {});
        assert_eq!(one.violations, many.violations);
        assert_eq!(one.totals, many.totals);
        assert_eq!(one.violations.len(), 3);
    }
}
