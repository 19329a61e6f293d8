//! Quotes (shortened) and numbers from the published experiments, with their source.
//! No number is read off a chart: if a source shows a curve without numbers, it is quoted and not
//! plotted.

mod figures;

pub(crate) use figures::{PAIR_COPY_SECS, PAIR_ZERO_SECS, TERABYTE_OFF_SECS, TERABYTE_ON_SECS, TERABYTE_TUNED_SECS};

use crate::plot::Plot;
use serde::Serialize;

/// A published source (docs/sources.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// VMware Storage APIs for Array Integration with the Pure Storage FlashArray: the VAAI guide
    /// and the white paper of 2015.
    Guide,
    /// The article on WRITE SAME handling in Purity 5.1.
    WriteSame,
    /// Deeper dive on vSphere UNMAP block count with Pure Storage.
    Unmap,
    /// ActiveCluster and VAAI.
    ActiveCluster,
}

impl Document {
    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Guide => "VMware Storage APIs for Array Integration with the Pure Storage FlashArray (2015)",
            Self::WriteSame => "What’s New in Purity 5.1: WRITE SAME Handling Improvement",
            Self::Unmap => "Deeper dive on vSphere UNMAP block count with Pure Storage",
            Self::ActiveCluster => "ActiveCluster and VAAI",
        }
    }
}

/// A quotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// The quoted text.
    pub text: &'static str,
    /// The source.
    pub document: Document,
    /// The section of the source.
    pub section: &'static str,
}

/// Published quotations and figures of one experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Published {
    /// The quotations.
    pub quotes: Vec<Quote>,
    /// The published numbers as plots.
    pub plots: Vec<Plot>,
}

/// Returns the published part of experiment `id` (`L1` to `L13`); empty for other ids.
pub fn about(id: &str) -> Published {
    Published { quotes: quotes(id).to_vec(), plots: figures::plots(id) }
}

const fn guide(section: &'static str, text: &'static str) -> Quote {
    Quote { text, document: Document::Guide, section }
}

const fn write_same(section: &'static str, text: &'static str) -> Quote {
    Quote { text, document: Document::WriteSame, section }
}

const fn unmap(text: &'static str) -> Quote {
    Quote { text, document: Document::Unmap, section: "the tests" }
}

const fn active_cluster(section: &'static str, text: &'static str) -> Quote {
    Quote { text, document: Document::ActiveCluster, section }
}

fn quotes(id: &str) -> &'static [Quote] {
    match id {
        "L1" => &BOOT_STORM,
        "L2" => &DEPLOY,
        "L3" => &SIMULTANEOUS,
        "L4" => &MIGRATION,
        "L5" => &DISK_TYPES,
        "L6" => &TRANSFER_SIZE,
        "L7" => &EAGER_ZEROED,
        "L8" => &ONE_TERABYTE,
        "L9" => &FIRST_WRITES,
        "L10" => &BLOCK_COUNT,
        "L11" => &UNDER_LOAD,
        "L12" => &TWO_ARRAYS,
        "L13" => &BOTH_SIDES,
        "H8" => &GUEST_UNMAP,
        _ => &[],
    }
}

const BOOT_STORM: [Quote; 2] = [
    guide(
        "Hardware Assisted Locking",
        "A virtual machine ran a workload across five virtual disks residing on the same datastore as 150 virtual \
         machines that were all powered-on simultaneously.",
    ),
    guide(
        "Hardware Assisted Locking",
        "With hardware assisted locking disabled the workload is deeply disrupted, resulting in inconsistent and \
         inferior performance during the boot storm. Both the IOPS and throughput vary wildly throughout the test. When \
         hardware assisted locking is enabled the disruption is almost entirely gone and the workload proceeds \
         essentially unfettered.",
    ),
];

const DEPLOY: [Quote; 2] = [
    guide("Full Copy", "One zeroedthick 100 GB virtual disk containing 50 GB of data."),
    guide(
        "Deploy from Template",
        "The deployment operation time was reduced from over two minutes down to seven seconds.",
    ),
];

const SIMULTANEOUS: [Quote; 2] = [
    guide(
        "Simultaneous Deploy from Template Operations",
        "It took 4.5 minutes for the deployment of 16 VMs with XCOPY disabled to complete and it only took 35 seconds \
         when XCOPY was enabled. For an improvement of about 8x. A single VM deployment improvement was about 5x so the \
         efficiency gains actually improve as deployment concurrency is scaled up.",
    ),
    guide(
        "Simultaneous Deploy from Template Operations",
        "Non-XCOPY based deployment characteristics (throughput/IOPS/duration) increase in an almost linear fashion \
         along with an increased VM count, while XCOPY-based deployment characteristics increase at a much slower \
         comparative rate.",
    ),
];

const MIGRATION: [Quote; 2] = [
    guide(
        "Storage vMotion",
        "1. Powered-off virtual machine. 2. Powered-on virtual machine, but mostly idle. 3. Powered-on virtual machine \
         running a workload. 32 KB I/O size, mostly random, heavy on writes.",
    ),
    guide(
        "Storage vMotion",
        "Both a “live” (powered-on) Storage vMotion and a powered-off migration can equally benefit from XCOPY \
         acceleration. The presence of a workload slows down the operation somewhat but nevertheless a substantial \
         benefit can still be observed.",
    ),
];

const DISK_TYPES: [Quote; 3] = [
    guide(
        "Virtual Disk Type Effect on XCOPY Performance",
        "All virtual machines contained the same 75 GB of data in one disk.",
    ),
    guide(
        "Virtual Disk Type Effect on XCOPY Performance",
        "XCOPY sessions involving thin virtual disks ignore the configured setting of the MaxHWTransferSize. Instead, it \
         would use the block size of the VMFS, which is 1 MB. This markedly slows down XCOPY sessions.",
    ),
    guide(
        "Virtual Disk Type Effect on XCOPY Performance",
        "In vSphere 6.x, the difference between deployment time is gone across the three types of virtual disks.",
    ),
];

const TRANSFER_SIZE: [Quote; 2] = [
    guide(
        "Full Copy",
        "The default value for this setting is 4 MB. This means that any given XCOPY SCSI command sent from that ESXi \
         host cannot exceed 4 MB of described data.",
    ),
    guide(
        "Full Copy",
        "If more data can be described in a given XCOPY command, less commands overall need to be sent and will \
         subsequently take less time for the total operation to complete. For this reason Pure Storage recommends \
         setting the transfer size to the maximum value of 16 MB.",
    ),
];

const EAGER_ZEROED: [Quote; 2] = [
    guide(
        "Deploying Eagerzeroedthick Virtual Disks",
        "The enabling of WRITE SAME, on average, reduces the deployment time of these types of virtual disks to about 6x \
         faster regardless of the size.",
    ),
    guide(
        "Deploying Eagerzeroedthick Virtual Disks",
        "The deployment duration of an eagerzeroedthick virtual disk without WRITE SAME increased almost linearly with \
         the added number of virtual disks (taking 3.5x longer with 4x more disks). When WRITE SAME was enabled, the \
         increase wasn't even twofold (taking 1.6x times longer with 4x more disks).",
    ),
];

const ONE_TERABYTE: [Quote; 3] = [
    write_same(
        "Create EagerZeroedThick Disks",
        "A new 1 TB eagerzeroedthick virtual disk takes 17 minutes and 6 seconds to complete. 1 GB/s of writes going on \
         the entire time.",
    ),
    write_same(
        "Create EagerZeroedThick Disks",
        "Time to re-enable WRITE SAME. Took 3 minutes 47 seconds. The WRITE SAME throughput averages around 5 GB/s.",
    ),
    write_same(
        "Create EagerZeroedThick Disks",
        "Purity 5.1: 1 minute and 10 seconds. The WRITE SAME throughput jumped through the roof to average around 15 GB/s.",
    ),
];

const FIRST_WRITES: [Quote; 5] = [
    guide(
        "Zero-On-New-Write Performance",
        "The latency overhead of zeroing-on-demand with WRITE SAME disabled is about 30%. The latency overhead is reduced \
         from 30% to 20% when WRITE SAME is enabled.",
    ),
    guide(
        "Zero-On-New-Write Performance",
        "The IOPS and throughput reduction caused by zeroing-on-demand with WRITE SAME disabled is about 23%. It is \
         reduced from 23% to 17% when WRITE SAME is enabled.",
    ),
    guide(
        "Zero-On-New-Write Performance",
        "With WRITE SAME enabled eagerzeroedthick performed better than thin and zeroedthick by 30% and 20% respectively \
         in both IOPS and throughput, and improved latency from both by 17%.",
    ),
    write_same(
        "Zeroing on demand",
        "100% sequential write 32 KB I/O size with 32 outstanding I/Os against a thin virtual disk until the 20 GB virtual \
         disk became fully allocated. The latency for the first 40 seconds was around 2.25 ms. Once the 20 GB was fully \
         allocated the average latency dropped to .7 ms.",
    ),
    write_same(
        "Zeroing on demand",
        "The allocation penalty period is shorter, 30 seconds instead of 40. The latency during the allocation period is \
         lower, 1.6 ms instead of 2.25.",
    ),
];

const BLOCK_COUNT: [Quote; 3] = [
    unmap(
        "1 TB, 4 TB and 8 TB; 70+ individual tests (each test repeated five times to get an average) of different UNMAP \
         block counts. Starting with a default of 200, then 400, then 1000, 2000, 3000 etc. until 69,000; then 100,000 and \
         256,000.",
    ),
    unmap(
        "Very small block counts cause the UNMAP duration to be quite long and dramatically decreases as the block count \
         increases, but at a certain point duration improvement essentially disappears. At around 60,000 block counts the \
         improvement is almost imperceptible.",
    ),
    guide(
        "UNMAP Operation Duration",
        "All increments show great improvement in UNMAP operation duration as the block count increases from 200 (default) \
         to about 40,000. At this point, increases in reclaim times start to display diminishing returns.",
    ),
];

const UNDER_LOAD: [Quote; 3] = [
    unmap(
        "There was a performance impact to the workload when: UNMAP was issued from the same host to the same datastore as \
         the workload when that workload was running to regions of a thin or zeroedthick virtual disk that had not yet \
         been initialized.",
    ),
    unmap(
        "Impacts were only present with WRITES. If the workload was all READS no impact was noted. Once the regions of the \
         virtual disks had been initialized by the workload the performance impact went away.",
    ),
    unmap(
        "When I issued UNMAP using the default block count the CPU usage went up around .5%. When I used a high block count \
         of 60,000 the CPU usage went up 2.5% but for a much, much shorter time.",
    ),
];

const TWO_ARRAYS: [Quote; 5] = [
    active_cluster(
        "Zero Offload/WRITE SAME",
        "It took 36 seconds to do 40 GB of eagerzeroing without WRITE SAME. Create a 40 GB EZT virtual disk with a \
         non-ActiveCluster volume: takes 6 seconds. This time on an ActiveCluster volume: with WRITE SAME on, it takes 16 \
         seconds.",
    ),
    active_cluster(
        "Copy Offload/XCOPY",
        "Baseline XCOPY off: about 23.5 seconds. XCOPY on, no ActiveCluster involved: 4.5 seconds.",
    ),
    active_cluster(
        "XCOPY with ActiveCluster enabled on the target",
        "XCOPY from a non-AC volume to an AC-volume: 1 minute 22 seconds. Longer than non-XCOPY. So this means that XCOPY \
         is not on.",
    ),
    active_cluster(
        "XCOPY with ActiveCluster enabled on the target and source",
        "25 seconds. XCOPY is being used! We simply mirror the XCOPY to other side, so both sides make the metadata change \
         and then we acknowledge. (I think my distance simulator is set at 4 ms RTT).",
    ),
    active_cluster(
        "Replies",
        "We do not currently support XCOPY across pods–whether they are stretched to the same arrays or not.",
    ),
];

const BOTH_SIDES: [Quote; 2] = [
    active_cluster(
        "Space Reclamation/UNMAP",
        "I wait for UNMAP to do its thing and then take a look at the capacity usage of that volume on both FlashArrays. \
         UNMAP works and it definitely is passed across FlashArrays when issued to an ActiveCluster enabled volume.",
    ),
    active_cluster(
        "Space Reclamation/UNMAP",
        "The capacity usage is slightly different on each array, because each FlashArray is globally deduped, so even \
         though the volume has the same data on each side, they might reduce differently on each array.",
    ),
];

const GUEST_UNMAP: [Quote; 2] = [
    guide(
        "In-Guest UNMAP in ESXi 6.x",
        "The virtual disk is then shrunk in accordance to the amount of space reclaimed inside of it.",
    ),
    guide(
        "In-Guest UNMAP in ESXi 6.x",
        "If EnableBlockDelete is enabled, UNMAP will then be issued to the VMFS volume for the space that previously was \
         held by the thin virtual disk. The capacity is then reclaimed on the FlashArray.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 14] = ["L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12", "L13", "H8"];

    #[test]
    fn every_experiment_has_published_quotes() {
        for id in IDS {
            assert!(!about(id).quotes.is_empty(), "{id}");
        }
        assert_eq!(about("L14"), Published::default());
    }

    #[test]
    fn published_plots_have_complete_points() {
        for id in IDS {
            for plot in about(id).plots {
                assert!(plot.is_drawn(), "{id}: {}", plot.title);
                let place = |x: f64| plot.places.get(x as usize).is_some();
                assert!(
                    plot.series.iter().flat_map(|s| &s.points).all(|p| p.y > 0.0 && place(p.x)),
                    "{id}: {}",
                    plot.title
                );
            }
        }
    }
}
