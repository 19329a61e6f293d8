//! The measured target, its portals, and the disks that the lab may use.

use crate::array::OwnArray;
use crate::display;
use crate::error::LabError;
use crate::results::TargetInfo;
use initiator::{InitiatorConfig, Inquiry, LogicalUnit, RunError, Session, Url};
use multipath::{DiskOptions, IscsiDisk, PathConfig, SharedDisk, Statistics};
use scsi::Lun;
use std::sync::Arc;
use std::time::Duration;

/// Queries of a unit that another host reserves, and the pause before each: 16 s.
const MOST_CONFLICTS: u32 = 800;
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// Returns the initiator name of a simulated host.
fn initiator(host: &str) -> String {
    format!("iqn.2026-11.org.ibid:lab-{host}")
}

/// A disk of the target.
#[derive(Clone, Debug)]
pub struct TargetDisk {
    /// LUN.
    pub lun: Lun,
    /// Size in bytes.
    pub bytes: u64,
}

/// The target and its disks.
pub struct LabTarget {
    urls: Vec<Url>,
    /// URLs that select the same disks, one for each portal and named LUN.
    pub(crate) texts: Vec<String>,
    /// The disks, in the order that experiments use.
    pub disks: Vec<TargetDisk>,
    /// Description for the report.
    pub subject: TargetInfo,
    /// The array, if the lab started it.
    own_array: Option<OwnArray>,
}

impl LabTarget {
    /// Surveys a target.
    /// A URL with a LUN selects that disk; one without selects all disks of the target (REPORT
    /// LUNS). A URL without a target name selects the first target that the portal reports.
    ///
    /// # Errors
    ///
    /// Fails if the URLs name several targets or if there is no disk.
    pub async fn survey(targets: &[String], own: Option<OwnArray>) -> Result<Self, LabError> {
        let (mut urls, mut texts): (Vec<(Url, bool)>, Vec<String>) = (Vec::new(), Vec::new());
        for text in targets {
            let mut url: Url = text.parse()?;
            if url.target.is_empty() {
                url = discovered(url).await?;
            }
            texts.push(text.clone());
            urls.push((url, names_lun(text)));
        }
        let Some((first, _)) = urls.first().cloned() else {
            return Err(LabError::usage("no target given", "use --target iscsi://host:port/iqn"));
        };
        if let Some((other, _)) = urls.iter().find(|(url, _)| url.target != first.target) {
            let message = format!("{} and {} are different targets", first.target, other.target);
            return Err(LabError::usage(message, "use URLs of one target"));
        }
        let mut session = Session::connect(&InitiatorConfig::new(&initiator("survey"), &first)).await?;
        let mut named: Vec<Lun> = urls.iter().filter(|(_, named)| *named).map(|(url, _)| url.lun).collect();
        // Each portal names the same LUNs.
        named.sort_unstable();
        named.dedup();
        let luns = if named.is_empty() { ask("REPORT LUNS", session.report_luns().await)? } else { named };
        let (mut disks, mut identity) = (Vec::new(), String::new());
        for lun in luns {
            let inquiry = ask(&format!("INQUIRY of LUN {lun}"), session.inquiry(lun).await)?;
            // Peripheral 0 is a disk that is connected. tgt, for example, has a controller at LUN
            // 0.
            if inquiry.peripheral != 0 {
                continue;
            }
            let unit = ask(&format!("LUN {lun}"), unit(&mut session, lun).await)?;
            if identity.is_empty() {
                identity = name_of(&inquiry);
            }
            disks.push(TargetDisk { lun, bytes: unit.blocks.saturating_mul(u64::from(unit.block_bytes)) });
        }
        if disks.is_empty() {
            let message = format!("target {} has no disk for initiator {}", first.target, initiator("survey"));
            return Err(LabError::usage(message, "connect volumes to this initiator or to all (--iqn '*')"));
        }
        let mut ports: Vec<Url> = Vec::new();
        for (url, _) in urls {
            if ports.iter().all(|port| port.portal != url.portal) {
                ports.push(url);
            }
        }
        let subject = TargetInfo {
            identity,
            target: first.target,
            portals: ports.iter().map(|url| url.portal.to_string()).collect(),
            disks: disks.iter().map(|disk| format!("LUN {}: {}", disk.lun, display::bytes(disk.bytes))).collect(),
            own: own.is_some(),
        };
        Ok(Self { urls: ports, texts, disks, subject, own_array: own })
    }

    /// Adds the paths of another array that serves the same disks under the same LUNs.
    pub(crate) fn join_array(&mut self, urls: &[String]) -> Result<(), LabError> {
        for text in urls {
            let url: Url = text.parse()?;
            self.subject.portals.push(url.portal.to_string());
            self.texts.push(text.clone());
            self.urls.push(url);
        }
        Ok(())
    }

    /// Opens disk number `at` for the host `host`, with a path through every portal.
    pub async fn open(&self, at: usize, host: &str, statistics: &Statistics) -> Result<Arc<IscsiDisk>, LabError> {
        self.open_with(at, host, DiskOptions { statistics: statistics.clone(), ..DiskOptions::default() }).await
    }

    /// Opens disk number `at` with these options.
    pub(crate) async fn open_with(
        &self,
        at: usize,
        host: &str,
        options: DiskOptions,
    ) -> Result<Arc<IscsiDisk>, LabError> {
        let disk = self.disk(at)?;
        let path = |url: &Url| {
            let url = Url { lun: disk.lun, ..url.clone() };
            PathConfig { config: InitiatorConfig::new(&initiator(host), &url), lun: disk.lun }
        };
        Ok(Arc::new(IscsiDisk::open(self.urls.iter().map(path).collect(), options).await?))
    }

    /// Returns the process id of the array, if the lab started it.
    pub fn array_process(&self) -> Option<u32> {
        self.own_array.as_ref().and_then(OwnArray::process_id)
    }

    /// Returns disk number `at`.
    ///
    /// # Errors
    ///
    /// [`LabError::NotPossible`] if the target has fewer disks.
    pub fn disk(&self, at: usize) -> Result<&TargetDisk, LabError> {
        let short = || LabError::NotPossible(format!("needs {} disks, target has {}", at + 1, self.disks.len()));
        self.disks.get(at).ok_or_else(short)
    }
}

/// Most bytes that one UNMAP releases. tgt 1.0.85 takes the length in bytes in 32 bits, and
/// releases nothing of 4 GiB or a multiple of it.
const RELEASED_AT_ONCE: u64 = 1 << 30;

/// Clears a disk before an experiment.
/// Uses UNMAP if the disk supports it. Also zeroes the first `head` bytes, which hold the
/// structures that identify a datastore.
pub async fn clear(disk: &dyn SharedDisk, head: u64) -> Result<(), LabError> {
    let (blocks, limits) = (disk.identity().blocks, disk.limits());
    let mut at = 0;
    while at < blocks && disk.vaai().is_usable(multipath::Primitive::Delete) {
        let most = RELEASED_AT_ONCE / u64::from(disk.identity().block_bytes);
        let count = limits.unmap_blocks.min(most).min(blocks - at);
        match disk.unmap(vec![(at, count)]).await {
            Ok(()) => at += count,
            Err(error) if error.is_refusal() => break,
            Err(error) => return Err(error.into()),
        }
    }
    let block = u64::from(disk.identity().block_bytes);
    let zeros = bytes::Bytes::from(vec![0; 1 << 20]);
    let step = (zeros.len() as u64 / block).min(u64::from(limits.transfer_blocks));
    let mut at = 0;
    while at < (head / block).min(blocks) {
        let count = step.min(blocks - at);
        let length = usize::try_from(count * block).unwrap_or(0);
        disk.write(at, zeros.slice(..length)).await?;
        at += count;
    }
    Ok(())
}

/// Returns true if the first `head` bytes of a disk are zeros.
pub async fn is_empty(disk: &dyn SharedDisk, head: u64) -> Result<bool, LabError> {
    let block = u64::from(disk.identity().block_bytes);
    let step = u64::from(disk.limits().transfer_blocks).min((1 << 20) / block);
    let (mut at, end) = (0, (head / block).min(disk.identity().blocks));
    while at < end {
        let count = step.min(end - at);
        let data = disk.read(at, u32::try_from(count).unwrap_or(u32::MAX)).await?;
        if data.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += count;
    }
    Ok(true)
}

/// Queries a unit. Waits while another host reserves it for a moment, as for a lock on a target
/// without COMPARE AND WRITE.
async fn unit(session: &mut Session, lun: Lun) -> Result<LogicalUnit, RunError> {
    let mut conflicts = 0;
    loop {
        match session.open_unit(lun).await {
            Err(RunError::Refused(refusal)) if refusal.is_conflict() && conflicts < MOST_CONFLICTS => {
                conflicts += 1;
                tokio::time::sleep(CONFLICT_PAUSE).await;
            }
            result => return result,
        }
    }
}

fn ask<T>(what: &str, result: Result<T, RunError>) -> Result<T, LabError> {
    result.map_err(|error| LabError::Ask { what: what.to_owned(), error })
}

fn name_of(inquiry: &Inquiry) -> String {
    // Some product names start with the vendor name.
    let vendor = if inquiry.product.starts_with(&inquiry.vendor) { "" } else { &inquiry.vendor };
    [vendor, &inquiry.product, &inquiry.revision].join(" ").trim().to_owned()
}

/// Returns true if the URL names a LUN.
fn names_lun(text: &str) -> bool {
    let path = text.split_once("//").map_or("", |(_, rest)| rest.split(['?']).next().unwrap_or_default());
    path.split('/').nth(2).is_some_and(|lun| !lun.is_empty())
}

/// Returns the URL of the first target that a portal reports.
async fn discovered(url: Url) -> Result<Url, LabError> {
    let records = Session::discover(&InitiatorConfig::new(&initiator("survey"), &url)).await?;
    let Some(record) = records.into_iter().next() else {
        let message = format!("portal {} reports no target", url.portal);
        return Err(LabError::usage(message, "use a URL with the target name: iscsi://host:port/iqn"));
    };
    Ok(Url { target: record.name, ..url })
}

/// Returns the URL of a portal, for discovery of its target.
pub fn portal_url(portal: &str) -> String {
    format!("iscsi://{portal}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use multipath::{FaultHook, Injection, MemoryArray, Operation};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn url_without_lun_selects_all_disks() {
        assert!(names_lun("iscsi://h:1/iqn.2026-11.a:b/0"));
        assert!(!names_lun("iscsi://h:1/iqn.2026-11.a:b/"));
        assert!(!names_lun("iscsi://h:1/iqn.2026-11.a:b?target_user=x/y/z"));
        assert!(!names_lun("iscsi://h:1"));
    }

    #[tokio::test]
    async fn cleared_disk_is_empty_with_and_without_unmap() {
        for refused in [false, true] {
            let array = MemoryArray::new("iqn.2026-11.org.example:array");
            let name = array.create(65_536);
            array.refuse(&name, multipath::Primitive::Delete, refused);
            let disk = array.open(&name, "esx01").unwrap();
            disk.write(4096, bytes::Bytes::from(vec![7; 4096])).await.unwrap();
            assert!(!is_empty(&disk, 4 << 20).await.unwrap());
            clear(&disk, 4 << 20).await.unwrap();
            assert!(is_empty(&disk, 4 << 20).await.unwrap(), "refused: {refused}");
        }
    }

    /// Notes the longest range of an UNMAP.
    #[derive(Default)]
    struct LongestUnmap(AtomicU64);

    impl FaultHook for LongestUnmap {
        fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
            if let Operation::Unmap(ranges) = operation {
                let longest = ranges.iter().map(|(_, blocks)| *blocks).max();
                self.0.fetch_max(longest.unwrap_or_default(), Ordering::Relaxed);
            }
            Injection::default()
        }
    }

    #[tokio::test]
    async fn disk_is_released_in_short_ranges() {
        let array = MemoryArray::new("iqn.2026-11.org.example:array");
        let name = array.create(8 << 21);
        let hook = Arc::new(LongestUnmap::default());
        array.set_hook(Some(hook.clone()));
        let disk = array.open(&name, "esx01").unwrap();
        disk.write((8 << 21) - 8, bytes::Bytes::from(vec![7; 4096])).await.unwrap();
        clear(&disk, 1 << 20).await.unwrap();
        assert_eq!(hook.0.load(Ordering::Relaxed), 1 << 21, "1 GiB, below the 4 GiB that 32 bits count");
        assert!(array.stored_bytes(&name) <= 1 << 20, "only the zeros of the head are stored");
    }
}
