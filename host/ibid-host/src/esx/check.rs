//! `ibid-host check` compares the host with the array's best practices for ESXi.
//! Each finding names the command that fixes it.

use super::filesystem;
use super::host_args::HostArgs;
use super::view::DeviceView;
use crate::failure::Failure;
use crate::out::out;
use clap::Args;
use esxi_host::{EsxiHost, Setting};
use multipath::{PathPolicy, PathState, Primitive, SharedDisk as _, Support};
use serde::Serialize;
use virtual_disk::reclaim::{DEFAULT_UNIT, logged_blocks};

/// Recommended number of array ports per device: two on each of two controllers.
const MIN_PORTS: usize = 4;
/// Recommended maximum transfer size of EXTENDED COPY, in KiB: the highest value that ESXi accepts.
const BEST_TRANSFER_KIB: i64 = 16_384;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Result of checking one best practice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// `host`, or the device name.
    subject: String,
    practice: &'static str,
    ok: bool,
    /// The actual value.
    found: String,
    /// The command that fixes it; without such a command, advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(subject: &str, practice: &'static str, ok: bool, found: String, fix: impl FnOnce() -> String) -> Self {
        Self { subject: subject.to_owned(), practice, ok, found, fix: (!ok).then(fix) }
    }
}

/// Runs the verb; fails if the host deviates from a best practice.
pub(crate) async fn run(args: &HostArgs, check: &CheckArgs) -> Result<(), Failure> {
    let host = args.open()?;
    let views = probed_views(&host).await;
    let volumes = filesystem::lines(&host).await;
    let closed = host.close().await;
    let (views, volumes, log) = (views?, volumes?, host.recent_log()?);
    let mut findings = host_findings(&host);
    findings.extend(views.iter().flat_map(device_findings));
    findings.extend(volumes.iter().filter(|line| line.mounted).map(|line| unmap_finding(line, &log)));
    let text = if check.json { json(&findings) } else { text(&findings) };
    out!("{text}");
    closed?;
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => Ok(()),
        wrong => Err(Failure::Wrong(format!("{wrong} of {} best practices are not met", findings.len()))),
    }
}

/// Returns the devices, after the support of offloads that were never used was determined.
async fn probed_views(host: &EsxiHost) -> Result<Vec<DeviceView>, Failure> {
    let mut views = DeviceView::collect(host, None).await?;
    for view in &mut views {
        if let Ok(disk) = host.iscsi_disk(&view.record.name).await {
            disk.probe_support().await;
            view.record.vaai = disk.vaai();
        }
    }
    Ok(views)
}

fn json(findings: &[Finding]) -> String {
    // Strings and booleans always serialize.
    serde_json::to_string_pretty(findings).unwrap_or_default() + "\n"
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut out = String::new();
    for Finding { subject, practice, ok, found, fix } in findings {
        out += &format!("{:5}  {subject:width$}  {practice}: {found}\n", if *ok { "ok" } else { "WRONG" });
        if let Some(fix) = fix {
            out += &format!("       {:width$}  fix: {fix}\n", "");
        }
    }
    out
}

fn host_findings(host: &EsxiHost) -> Vec<Finding> {
    let adapters = host.adapters();
    let mut findings = vec![Finding::new("host", "more than one HBA", adapters > 1, format!("{adapters}"), || {
        "ibid-host esxcli iscsi adapter set --ports 2".to_owned()
    })];
    if host.devices().is_empty() {
        findings.push(Finding::new("host", "devices are claimed", false, "none".to_owned(), || {
            "ibid-host claim iscsi://PORTAL".to_owned()
        }));
    }
    for (setting, practice) in [
        (Setting::HardwareAcceleratedMove, "XCOPY is enabled"),
        (Setting::HardwareAcceleratedInit, "WRITE SAME is enabled"),
        (Setting::HardwareAcceleratedLocking, "ATS is enabled"),
        (Setting::UseAtsForHeartbeat, "ATS is used for heartbeats"),
        (Setting::EnableBlockDelete, "UNMAP of guests reaches the array"),
    ] {
        let path = setting.definition().path;
        let (value, name) = (host.settings().get(setting), setting.definition().name());
        findings.push(Finding::new("host", practice, value == 1, format!("{name} is {value}"), || {
            format!("ibid-host esxcli system settings advanced set --int-value 1 --option {path}")
        }));
    }
    let size = host.settings().get(Setting::MaxHwTransferSize);
    let path = Setting::MaxHwTransferSize.definition().path;
    let found = format!("MaxHWTransferSize is {size}");
    findings.push(Finding::new("host", "XCOPY describes 16 MB at once", size == BEST_TRANSFER_KIB, found, || {
        format!("ibid-host esxcfg-advcfg -s {BEST_TRANSFER_KIB} {path}")
    }));
    findings
}

fn device_findings(view: &DeviceView) -> Vec<Finding> {
    let (device, name) = (&view.record, view.record.name.as_str());
    let ports = device.ports.len();
    let dead: Vec<&str> =
        view.paths.iter().filter(|path| path.state() == PathState::Dead).map(|path| path.name.as_str()).collect();
    let trouble =
        if dead.is_empty() { format!("{} paths", view.paths.len()) } else { format!("dead: {}", dead.join(", ")) };
    let policy = device.policy;
    let mut findings = vec![
        Finding::new(name, "at least four ports", ports >= MIN_PORTS, ports.to_string(), || {
            "add array portals (ibid serve --iscsi ADDRESS, once for each), then ibid-host claim \
             iscsi://PORTAL"
                .to_owned()
        }),
        Finding::new(name, "every path is alive", dead.is_empty(), trouble, || {
            format!("ibid-host esxcli storage core path list --device {name} shows why")
        }),
        Finding::new(
            name,
            "round robin",
            matches!(policy, PathPolicy::RoundRobin { .. }),
            policy.name().to_owned(),
            || format!("ibid-host esxcli storage nmp device set --device {name} --psp VMW_PSP_RR"),
        ),
    ];
    if let PathPolicy::RoundRobin { iops } = policy {
        findings.push(Finding::new(name, "an I/O operation limit of 1", iops == 1, iops.to_string(), || {
            format!("ibid-host esxcli storage nmp psp roundrobin deviceconfig set --device {name} --type iops --iops 1")
        }));
    }
    for primitive in Primitive::ALL {
        let state = device.vaai.of(primitive);
        let practice = match primitive {
            Primitive::Ats => "ATS is usable",
            Primitive::Clone => "XCOPY is usable",
            Primitive::Zero => "WRITE SAME is usable",
            Primitive::Delete => "UNMAP is usable",
        };
        let found = if state.enabled { state.support.to_string() } else { "disabled for this device".to_owned() };
        let option = primitive.to_string().to_lowercase();
        let set = format!("ibid-host esxcli storage core device vaai status set --device {name}");
        findings.push(Finding::new(
            name,
            practice,
            state.enabled && state.support == Support::Supported,
            found,
            || {
                if state.support == Support::Unknown {
                    format!("ibid-host esxcli storage core path list --device {name} shows why it does not answer")
                } else if state.support == Support::Unsupported && state.enabled {
                    format!("{set} --forget, if the array supports it now")
                } else {
                    format!("{set} --{option} enable")
                }
            },
        ));
    }
    findings
}

/// Checks the largest iteration of the last UNMAP of a datastore in the host's log. Each process of
/// the host has its own number in the log; an UNMAP is one process.
/// Current ESXi versions replace a count above 1 % of the free blocks by 200. Older versions do
/// not, and the temporary file that holds the blocks then fills the datastore.
fn unmap_finding(line: &filesystem::Line, log: &[String]) -> Finding {
    let most = (line.space.free / 100).max(DEFAULT_UNIT);
    let uuid = line.info.uuid.to_string();
    let runs = log.iter().filter_map(|text| Some((process_of(text), logged_blocks(text, &uuid)?)));
    let runs: Vec<(Option<&str>, u64)> = runs.collect();
    let latest = runs.last().map(|(process, _)| *process);
    let last = runs.iter().filter(|(process, _)| Some(*process) == latest).map(|(_, blocks)| *blocks).max();
    let found = match last {
        Some(last) => format!("{last} blocks, limit {most}"),
        None => format!("not run, limit {most} blocks"),
    };
    let (label, practice) = (line.info.label.as_str(), "UNMAP takes at most 1 % of the free space at a time");
    Finding::new(label, practice, last.is_none_or(|last| last <= most), found, || {
        format!("ibid-host esxcli storage vmfs unmap --volume-label {label} --reclaim-unit {most}")
    })
}

/// Returns the process in a log line: `… cpu0:PROCESS)text`.
fn process_of(line: &str) -> Option<&str> {
    line.split_once(" cpu0:")?.1.split_once(')').map(|(process, _)| process)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::device;
    use super::*;
    use datastore::DatastoreSpace;

    #[test]
    fn check_of_new_host_lists_non_default_practices() {
        let host = EsxiHost::transient("esx01").unwrap();
        let findings = host_findings(&host);
        let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).map(|finding| finding.practice).collect();
        assert_eq!(
            wrong,
            ["devices are claimed", "UNMAP of guests reaches the array", "XCOPY describes 16 MB at once"]
        );
        host.set(Setting::EnableBlockDelete, 1).unwrap();
        host.set(Setting::MaxHwTransferSize, 16_384).unwrap();
        host.set(Setting::HardwareAcceleratedLocking, 0).unwrap();
        host.set_adapters(1).unwrap();
        let findings = host_findings(&host);
        let fixes: Vec<_> = findings.iter().filter_map(|finding| finding.fix.as_deref()).collect();
        assert_eq!(
            fixes,
            [
                "ibid-host esxcli iscsi adapter set --ports 2",
                "ibid-host claim iscsi://PORTAL",
                "ibid-host esxcli system settings advanced set --int-value 1 --option \
                 /VMFS3/HardwareAcceleratedLocking",
            ]
        );
    }

    #[test]
    fn too_large_unmap_iteration_is_reported() {
        let volume = |free| filesystem::tests::line("ds1", DatastoreSpace { blocks: 1 << 20, free });
        let uuid = volume(0).info.uuid.to_string();
        let log = |blocks| {
            vec![format!("2026-11-22T04:10:56.069Z cpu0:1){}", virtual_disk::reclaim::log_line(blocks, &uuid))]
        };
        let finding = unmap_finding(&volume(500_000), &log(5000));
        assert_eq!((finding.ok, finding.found.as_str()), (true, "5000 blocks, limit 5000"));
        let finding = unmap_finding(&volume(500_000), &log(5001));
        let fix = "ibid-host esxcli storage vmfs unmap --volume-label ds1 --reclaim-unit 5000";
        assert_eq!((finding.ok, finding.fix.as_deref()), (false, Some(fix)));
        // Only the last UNMAP counts.
        let mut both = log(5001);
        both.push(format!("2026-11-22T05:10:56.069Z cpu0:2){}", virtual_disk::reclaim::log_line(640, &uuid)));
        assert_eq!(unmap_finding(&volume(500_000), &both).found, "640 blocks, limit 5000");
        // These are all correct: 200 blocks, which ESXi always allows; an entry of another
        // datastore; no entry.
        assert!(unmap_finding(&volume(100), &log(200)).ok);
        let other = vec![virtual_disk::reclaim::log_line(9999, "another")];
        assert_eq!(unmap_finding(&volume(100), &other).found, "not run, limit 200 blocks");
    }

    #[test]
    fn healthy_device_meets_all_practices() {
        let mut view = device(&[PathState::Active; 4]);
        let unknown = device_findings(&view).into_iter().filter(|finding| !finding.ok).count();
        assert_eq!(unknown, 4, "unknown support is not enough");
        Primitive::ALL.into_iter().for_each(|one| view.record.vaai.of_mut(one).support = Support::Supported);
        let findings = device_findings(&view);
        assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
        assert_eq!(findings.len(), 8);
    }

    #[test]
    fn device_findings_name_the_fix() {
        let mut view = device(&[PathState::Active, PathState::Dead]);
        view.record.policy = PathPolicy::RoundRobin { iops: 1000 };
        Primitive::ALL.into_iter().for_each(|one| view.record.vaai.of_mut(one).support = Support::Supported);
        view.record.vaai.clone.enabled = false;
        view.record.vaai.zero.support = Support::Unsupported;
        let name = "naa.624a9370753d69fe46db318d00011014";
        let wrong: String = text(&device_findings(&view).into_iter().filter(|finding| !finding.ok).collect::<Vec<_>>());
        let indent = " ".repeat(7 + name.len() + 2);
        let set = format!("ibid-host esxcli storage core device vaai status set --device {name}");
        let expected = [
            format!("WRONG  {name}  at least four ports: 2\n"),
            format!("{indent}fix: add array portals (ibid serve --iscsi ADDRESS, once for each), then "),
            "ibid-host claim iscsi://PORTAL\n".to_owned(),
            format!("WRONG  {name}  every path is alive: dead: vmhba64:C1:T0:L7\n"),
            format!("{indent}fix: ibid-host esxcli storage core path list --device {name} shows why\n"),
            format!("WRONG  {name}  an I/O operation limit of 1: 1000\n"),
            format!("{indent}fix: ibid-host esxcli storage nmp psp roundrobin deviceconfig set --device {name} "),
            "--type iops --iops 1\n".to_owned(),
            format!("WRONG  {name}  XCOPY is usable: disabled for this device\n"),
            format!("{indent}fix: {set} --clone enable\n"),
            format!("WRONG  {name}  WRITE SAME is usable: unsupported\n"),
            format!("{indent}fix: {set} --forget, if the array supports it now\n"),
        ];
        assert_eq!(wrong, expected.concat());
    }
}
