//! A device and the current state of its paths, for the output of `esxcli storage`.

use crate::failure::Failure;
use esxi_host::{DeviceRecord, EsxiHost};
use multipath::{PathState, PathStatus, Primitive, Support, VaaiStatus};

/// A path with its runtime name and, if the device could be opened, its status.
#[derive(Clone, Debug)]
pub(crate) struct PathView {
    pub(crate) name: String,
    pub(crate) status: Option<PathStatus>,
}

impl PathView {
    pub(crate) fn state(&self) -> PathState {
        self.status.as_ref().map_or(PathState::Dead, |status| status.state)
    }
}

/// A device with its paths.
#[derive(Clone, Debug)]
pub(crate) struct DeviceView {
    pub(crate) record: DeviceRecord,
    pub(crate) paths: Vec<PathView>,
    /// Index of the path that carried the last command.
    pub(crate) current: usize,
}

impl DeviceView {
    /// Opens the device `name`, or all devices, and reads the state of their paths.
    pub(crate) async fn collect(host: &EsxiHost, name: Option<&str>) -> Result<Vec<Self>, Failure> {
        let records = match name {
            Some(name) => vec![host.device(name)?],
            None => host.devices(),
        };
        let targets = host.targets();
        let mut views = Vec::with_capacity(records.len());
        for record in records {
            // A device that cannot be opened is listed with dead paths.
            let disk = host.iscsi_disk(&record.name).await.ok();
            let statuses = disk.as_ref().map_or_else(Vec::new, |disk| disk.paths());
            let names = record.path_names(&targets).into_iter().enumerate();
            let paths = names.map(|(at, name)| PathView { name, status: statuses.get(at).cloned() }).collect();
            views.push(Self { record, paths, current: disk.map_or(0, |disk| disk.current_path()) });
        }
        Ok(views)
    }

    /// Returns the paths that carry commands: all paths in the best state, which must be active or
    /// unoptimized.
    pub(crate) fn working(&self) -> Vec<&PathView> {
        let best = self.paths.iter().map(PathView::state).max().unwrap_or_default();
        let works = |path: &&PathView| best >= PathState::Unoptimized && path.state() == best;
        self.paths.iter().filter(works).collect()
    }

    /// Returns ESXi's device status: on, degraded (a dead path, or only one path) or dead.
    pub(crate) fn health(&self) -> &'static str {
        let alive = self.paths.iter().filter(|path| path.state() > PathState::Dead).count();
        match alive {
            0 => "dead",
            alive if alive == 1 || alive < self.paths.len() => "degraded",
            _ => "on",
        }
    }
}

/// Returns ESXi's status of all offloads together: supported or unsupported if all agree, else
/// unknown.
pub(crate) fn overall(vaai: &VaaiStatus) -> Support {
    let all = |support: Support| Primitive::ALL.iter().all(|one| vaai.of(*one).support == support);
    match () {
        () if all(Support::Supported) => Support::Supported,
        () if all(Support::Unsupported) => Support::Unsupported,
        () => Support::Unknown,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use initiator::Portal;
    use multipath::PathPolicy;

    /// Returns a device with one path per state, spread over two port groups.
    pub(crate) fn device(states: &[PathState]) -> DeviceView {
        let name = "naa.624a9370753d69fe46db318d00011014";
        let target = "iqn.2026-11.org.ibid:array".to_owned();
        let port = |port: u16| Portal { host: "10.0.0.1".into(), port };
        let ports: Vec<String> =
            (0..states.len().max(1)).map(|at| format!("iscsi://10.0.0.1:{}/{target}/7", 3260 + at)).collect();
        let record = DeviceRecord {
            name: name.into(),
            vendor: "IBID".into(),
            product: "IBID Volume".into(),
            revision: "0.1".into(),
            serial: "753D69FE46DB318D00011014".into(),
            array: target.clone(),
            block_bytes: 512,
            blocks: 1 << 31,
            scsi_level: 6,
            thin: true,
            solid_state: true,
            ports,
            adapters: 1,
            policy: PathPolicy::default(),
            queue_depth: 128,
            vaai: VaaiStatus::default(),
        };
        let names = record.path_names(std::slice::from_ref(&target));
        let status = |(at, state): (usize, &PathState)| PathStatus {
            portal: port(3260 + at as u16),
            target: target.clone(),
            lun: scsi::Lun::new(7).unwrap(),
            state: *state,
            group: Some(at as u16 % 2),
            commands: 0,
            last_error: None,
        };
        let statuses = states.iter().enumerate().map(status);
        let paths = names.into_iter().zip(statuses).map(|(name, status)| PathView { name, status: Some(status) });
        DeviceView { record, paths: paths.collect(), current: 0 }
    }

    #[test]
    fn health_counts_alive_paths() {
        use PathState::{Active, Dead, Unoptimized};
        for (states, health, working) in [
            (&[Active, Active][..], "on", 2),
            (&[Active, Dead], "degraded", 1),
            (&[Active, Unoptimized], "on", 1),
            (&[Active], "degraded", 1),
            (&[Dead, Dead], "dead", 0),
        ] {
            let view = device(states);
            assert_eq!((view.health(), view.working().len()), (health, working), "{states:?}");
        }
    }

    #[test]
    fn overall_vaai_status_needs_agreement() {
        let mut vaai = VaaiStatus::default();
        assert_eq!(overall(&vaai), Support::Unknown);
        vaai.ats.support = Support::Supported;
        assert_eq!(overall(&vaai), Support::Unknown);
        for support in [Support::Supported, Support::Unsupported] {
            Primitive::ALL.into_iter().for_each(|one| vaai.of_mut(one).support = support);
            assert_eq!(overall(&vaai), support);
        }
    }
}
