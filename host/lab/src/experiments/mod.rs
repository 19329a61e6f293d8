//! The experiments L0 to L13, H8 and the sweep S1, one file each.

mod block_count;
mod boot_storm;
mod both_sides;
mod copies;
mod deploy;
mod disk_type;
mod eager_zeroed;
mod first_write;
mod guest_unmap;
mod migration;
mod primitives;
mod simultaneous;
mod sweep;
mod terabyte;
mod transfer_size;
mod two_arrays;
mod unmap_load;
mod zeros;

use crate::bench::LabBench;
use crate::error::LabError;
use crate::results::ExperimentFindings;
use std::future::Future;
use std::pin::Pin;

/// The future of a running experiment.
type Work<'a> = Pin<Box<dyn Future<Output = Result<(), LabError>> + 'a>>;

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// `L0` to `L13`, `H8`, and `S1`.
    pub id: &'static str,
    /// Name on the command line.
    pub name: &'static str,
    /// Title in the report.
    pub title: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// GiB that it stores at a time on a target that stores zeros and copies, at small and paper
    /// scale.
    gib: [u64; 2],
    /// The same with the smallest sizes that a space limit can choose.
    least_gib: [u64; 2],
    /// It uses two arrays that the lab starts, not the target.
    pub(crate) is_on_two_arrays: bool,
    run: for<'a> fn(&'a LabBench, &'a mut ExperimentFindings) -> Work<'a>,
}

impl Experiment {
    /// Runs the experiment. After an error, `findings` has the samples before it.
    pub(crate) fn run<'a>(&self, bench: &'a LabBench, findings: &'a mut ExperimentFindings) -> Work<'a> {
        (self.run)(bench, findings)
    }

    /// Returns the bytes that it stores at a time, within the limit.
    pub(crate) fn space(&self, bench: &LabBench) -> u64 {
        let whole = bench.scale.pick(self.gib[0], self.gib[1]) << 30;
        whole.min(bench.space_limit.unwrap_or(u64::MAX))
    }

    /// Returns the bytes that it needs at least.
    pub(crate) fn least_space(&self, bench: &LabBench) -> u64 {
        bench.scale.pick(self.least_gib[0], self.least_gib[1]) << 30
    }

    /// Returns true if `word` is the id or the name of this experiment, in any case.
    pub fn matches(&self, word: &str) -> bool {
        self.id.eq_ignore_ascii_case(word) || self.name.eq_ignore_ascii_case(word)
    }
}

/// The sweep. It is not part of `all`, because it answers no published question.
pub const SWEEP: Experiment = Experiment {
    id: "S1",
    gib: [16, 64],
    least_gib: [5, 35],
    is_on_two_arrays: false,
    name: "sweep",
    title: "Sweep",
    question: "How do outstanding commands, transfer size and distance affect copies, zeroing, reads and writes?",
    run: |bench, findings| Box::pin(sweep::run(bench, findings)),
};

/// All experiments in the order of their ids.
pub const ALL: [Experiment; 15] = [
    Experiment {
        id: "L0",
        gib: [16, 64],
        least_gib: [5, 35],
        is_on_two_arrays: false,
        name: "primitives",
        title: "Primitives alone",
        question: "How fast is each primitive alone, and do these rates predict the other experiments?",
        run: |bench, findings| Box::pin(primitives::run(bench, findings)),
    },
    Experiment {
        id: "L1",
        gib: [2, 6],
        least_gib: [2, 6],
        is_on_two_arrays: false,
        name: "boot-storm",
        title: "Boot storm",
        question: "How much do many power-ons disturb a workload on the same datastore, with ATS locks and with \
                   reservations of the whole LUN?",
        run: |bench, findings| Box::pin(boot_storm::run(bench, findings)),
    },
    Experiment {
        id: "L2",
        gib: [2, 100],
        least_gib: [2, 100],
        is_on_two_arrays: false,
        name: "deploy",
        title: "Deploy from template",
        question: "How long does it take to copy a virtual disk within the array, and through the host?",
        run: |bench, findings| Box::pin(deploy::run(bench, findings)),
    },
    Experiment {
        id: "L3",
        gib: [3, 72],
        least_gib: [3, 72],
        is_on_two_arrays: false,
        name: "simultaneous",
        title: "Simultaneous deployments",
        question: "Does the gain of XCOPY remain with up to sixteen deployments at once?",
        run: |bench, findings| Box::pin(simultaneous::run(bench, findings)),
    },
    Experiment {
        id: "L4",
        gib: [2, 150],
        least_gib: [2, 150],
        is_on_two_arrays: false,
        name: "migration",
        title: "Storage vMotion",
        question: "How much time does XCOPY save when a disk moves to another datastore, with its machine off, idle or busy?",
        run: |bench, findings| Box::pin(migration::run(bench, findings)),
    },
    Experiment {
        id: "L5",
        gib: [4, 300],
        least_gib: [4, 300],
        is_on_two_arrays: false,
        name: "disk-type",
        title: "Disk type and copy time",
        question: "How does the format of the source disk affect copy time, on ESXi 5.x and 6.0?",
        run: |bench, findings| Box::pin(disk_type::run(bench, findings)),
    },
    Experiment {
        id: "L6",
        gib: [4, 100],
        least_gib: [4, 100],
        is_on_two_arrays: false,
        name: "transfer-size",
        title: "Transfer size",
        question: "How does MaxHWTransferSize affect XCOPY: 4 MB or 16 MB per command?",
        run: |bench, findings| Box::pin(transfer_size::run(bench, findings)),
    },
    Experiment {
        id: "L7",
        gib: [256, 400],
        least_gib: [2, 80],
        is_on_two_arrays: false,
        name: "eager-zeroed",
        title: "Eagerzeroedthick disks",
        question: "How long does it take to create zeroed disks of several sizes, and four at once?",
        run: |bench, findings| Box::pin(eager_zeroed::run(bench, findings)),
    },
    Experiment {
        id: "L8",
        gib: [512, 1024],
        least_gib: [4, 64],
        is_on_two_arrays: false,
        name: "terabyte",
        title: "One large eagerzeroedthick disk",
        question: "How fast does the array execute WRITE SAME of 1 MB, the size that ESXi sends?",
        run: |bench, findings| Box::pin(terabyte::run(bench, findings)),
    },
    Experiment {
        id: "L9",
        gib: [1, 20],
        least_gib: [1, 20],
        is_on_two_arrays: false,
        name: "first-write",
        title: "First writes",
        question: "How much slower are a guest’s first writes because blocks are zeroed before them?",
        run: |bench, findings| Box::pin(first_write::run(bench, findings)),
    },
    Experiment {
        id: "L10",
        gib: [128, 8192],
        least_gib: [8, 64],
        is_on_two_arrays: false,
        name: "block-count",
        title: "UNMAP block count",
        question: "How does the block count per iteration affect the duration of UNMAP?",
        run: |bench, findings| Box::pin(block_count::run(bench, findings)),
    },
    Experiment {
        id: "L11",
        gib: [8, 36],
        least_gib: [8, 36],
        is_on_two_arrays: false,
        name: "unmap-load",
        title: "UNMAP under load",
        question: "Which workloads does UNMAP slow down, and how much host CPU does it use?",
        run: |bench, findings| Box::pin(unmap_load::run(bench, findings)),
    },
    Experiment {
        id: "L12",
        gib: [4, 64],
        least_gib: [4, 64],
        is_on_two_arrays: true,
        name: "two-arrays",
        title: "Zeroing and copies on two arrays",
        question: "How long do zeroing and deployments take on a volume that two arrays serve, and which bytes cross the link?",
        run: |bench, findings| Box::pin(two_arrays::run(bench, findings)),
    },
    Experiment {
        id: "L13",
        gib: [1, 16],
        least_gib: [1, 16],
        is_on_two_arrays: true,
        name: "both-sides",
        title: "UNMAP on both sides",
        question: "Does the space of deleted data return on both arrays that serve a volume?",
        run: |bench, findings| Box::pin(both_sides::run(bench, findings)),
    },
    Experiment {
        id: "H8",
        gib: [1, 10],
        least_gib: [1, 10],
        is_on_two_arrays: false,
        name: "guest-unmap",
        title: "UNMAP by the guest",
        question: "Does the space that a guest trims return to the datastore and to the array?",
        run: |bench, findings| Box::pin(guest_unmap::run(bench, findings)),
    },
];

/// Seeds of the test data and loads.
pub const SEEDS: [(&str, u64); 10] = [
    ("L0 and S1", crate::raw_load::SEED),
    ("L1", boot_storm::SEED),
    ("L2 to L6", copies::SEED),
    ("L4, writes of the guest", migration::SEED),
    ("L9", first_write::SEED),
    ("L10", block_count::SEED),
    ("L11", unmap_load::SEED),
    ("L12", two_arrays::SEED),
    ("L13", both_sides::SEED),
    ("offsets of loads", crate::load::SEED),
];

/// Returns the place of experiment `id` in a report.
pub fn order(id: &str) -> usize {
    ALL.iter().position(|experiment| experiment.id == id).unwrap_or(ALL.len())
}

/// Returns the experiments that `words` name; `all` selects all but the sweep.
///
/// # Errors
///
/// Returns the first word that names no experiment.
pub fn select(words: &[String]) -> Result<Vec<Experiment>, String> {
    let every = || ALL.into_iter().chain([SWEEP]);
    if let Some(unknown) = words.iter().find(|word| *word != "all" && !every().any(|e| e.matches(word))) {
        return Err(unknown.clone());
    }
    let all = words.iter().any(|word| word == "all");
    let is_named = |experiment: &Experiment| words.iter().any(|word| experiment.matches(word));
    Ok(every().filter(|experiment| is_named(experiment) || all && experiment.id != SWEEP.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    #[test]
    fn experiments_are_selected_by_id_or_name() {
        let ids = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            select(&words).map(|found| found.iter().map(|e| e.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["terabyte", "l2", "L8"]), Ok(vec!["L2", "L8"]));
        assert_eq!(ids(&["all"]).unwrap().len(), ALL.len());
        assert_eq!(ids(&["sweep", "L1"]), Ok(vec!["L1", "S1"]));
        assert_eq!(ids(&["deploy", "L14"]), Err("L14".to_owned()));
    }

    #[test]
    fn every_experiment_has_a_published_source() {
        for (index, experiment) in ALL.iter().enumerate().skip(1) {
            let id = if index < 14 { format!("L{index}") } else { "H8".to_owned() };
            assert_eq!(experiment.id, id);
            assert!(!published::about(experiment.id).quotes.is_empty());
        }
    }
}
