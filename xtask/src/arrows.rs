//! Which crate may depend on which.
//!
//! Two wings share a base: crates in `array/` and `host/` use crates in `common/` and in their own
//! wing, never each other. Within a wing a crate uses only crates listed before it. Pure crates
//! (values in, values out) link no library that does I/O. Tests of the array may use the host kit's
//! initiator, as an independent client.

use anyhow::Result;
use serde::Deserialize;
use std::path::Path;

/// A crate and the crates of this workspace it may use.
struct Part {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Besides those, in its tests.
    may_test_with: &'static [&'static str],
}

const fn part(name: &'static str, may_use: &'static [&'static str]) -> Part {
    Part { name, may_use, may_test_with: &[] }
}

const PARTS: &[Part] = &[
    part("types", &[]),
    part("buffers", &[]),
    part("platform", &["types"]),
    // The test kit: any crate may test with it, without being listed.
    part("testing", &["platform"]),
    // The wire.
    part("scsi", &["types"]),
    part("iscsi", &["types", "buffers", "scsi"]),
    // The engine.
    part("reduction", &["types"]),
    part("ondisk", &["types", "platform"]),
    part("wal", &["types", "platform"]),
    part("blockmap", &["types", "ondisk"]),
    part("fsck", &["types", "platform", "reduction", "ondisk", "wal", "blockmap"]),
    part("engine", &["types", "buffers", "platform", "reduction", "ondisk", "wal", "blockmap", "fsck"]),
    // The array.
    part("encryption", &["platform", "ondisk"]),
    part("catalog", &["types", "engine"]),
    part("telemetry", &["types"]),
    Part {
        name: "iscsi-target",
        may_use: &["types", "platform", "scsi", "iscsi", "engine", "catalog", "telemetry"],
        may_test_with: &["ondisk", "initiator"],
    },
    part("api", &["types"]),
    part("notify", &["types", "platform", "api", "catalog"]),
    part("console", &[]),
    part("pinned-tls", &["platform"]),
    part("link", &["types", "platform", "pinned-tls"]),
    part("mediator", &["types", "platform", "pinned-tls"]),
    Part { name: "replication", may_use: &["types", "platform", "wal", "engine", "link"], may_test_with: &["ondisk"] },
    // The state machine of a pod.
    part("pod", &["types"]),
    Part {
        name: "pods",
        may_use: &["types", "platform", "pinned-tls", "engine", "replication", "mediator", "pod"],
        may_test_with: &["ondisk", "link"],
    },
    Part {
        name: "rest",
        may_use: &["types", "platform", "api", "catalog", "engine", "telemetry", "notify", "console", "link"],
        may_test_with: &["ondisk", "client"],
    },
    part("client", &["types", "platform", "api"]),
    Part {
        name: "ibid",
        may_use: &[
            "types",
            "buffers",
            "platform",
            "replication",
            "pod",
            "pods",
            "ondisk",
            "fsck",
            "encryption",
            "engine",
            "catalog",
            "telemetry",
            "iscsi-target",
            "api",
            "pinned-tls",
            "link",
            "mediator",
            "rest",
            "client",
        ],
        may_test_with: &["scsi", "iscsi", "initiator"],
    },
    // The host kit: independent of the array, so it never links the engine.
    part("initiator", &["types", "platform", "scsi", "iscsi"]),
    part("multipath", &["types", "platform", "scsi", "iscsi", "initiator"]),
    part("datastore", &["types", "platform", "scsi", "multipath"]),
    // Simulates the datastore. `ibid-host` uses its workload and its oracle over real iSCSI.
    part("datastore-sim", &["platform", "testing", "scsi", "multipath", "datastore"]),
    part("esxi-host", &["types", "platform", "scsi", "iscsi", "initiator", "multipath"]),
    part("virtual-disk", &["types", "platform", "testing", "multipath", "datastore", "esxi-host"]),
    part("lab", &["types", "platform", "testing", "scsi", "initiator", "multipath", "datastore", "virtual-disk"]),
    part(
        "ibid-host",
        &[
            "types",
            "platform",
            "testing",
            "scsi",
            "iscsi",
            "initiator",
            "multipath",
            "datastore",
            "datastore-sim",
            "esxi-host",
            "virtual-disk",
            "lab",
        ],
    ),
    // Around them.
    // Only `sim/*` may use both wings: `array/*` and `host/*` never use each other.
    part("sim", &["types", "platform", "testing", "ondisk", "wal", "blockmap", "fsck", "engine", "datastore-sim"]),
    // A model of the protocol; independent of the code.
    part("pods-model", &["testing"]),
    part("pods-sim", &["types", "testing", "pod"]),
    part(
        "arrays-sim",
        &[
            "types",
            "platform",
            "testing",
            "ondisk",
            "engine",
            "link",
            "replication",
            "mediator",
            "pod",
            "pods",
            "sim",
            "pods-sim",
        ],
    ),
    part(
        "bench",
        &[
            "types",
            "platform",
            "pod",
            "pods",
            "testing",
            "reduction",
            "ondisk",
            "wal",
            "blockmap",
            "fsck",
            "encryption",
            "engine",
            "telemetry",
            "link",
            "replication",
            "initiator",
        ],
    ),
    part("xtask", &[]),
];

/// The crate that every other may use in its tests.
const TEST_KIT: &str = "testing";

/// Pure crates, and the libraries with I/O that they may not link.
const PURE: &[&str] = &["types", "buffers", "scsi", "iscsi", "reduction", "blockmap", "api", "pod"];
const OUTSIDE: &[&str] = &["tokio", "rustix", "libc", "getrandom", "rand", "mio", "socket2", "io-uring"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Compares the output of `cargo metadata --no-deps` with the arrows above.
pub(crate) fn check(metadata: &str) -> Result<Vec<String>> {
    let metadata: Metadata = serde_json::from_str(metadata)?;
    Ok(metadata.packages.iter().flat_map(judge).collect())
}

/// The name of a crate without the project's prefix; the two programs keep theirs.
fn short(package: &str) -> &str {
    if package == "ibid-host" { package } else { package.strip_prefix("ibid-").unwrap_or(package) }
}

/// The folder that holds a crate's folder: `array` for `…/array/engine`.
fn wing(folder: &Path) -> Option<&str> {
    folder.parent()?.file_name()?.to_str()
}

/// True if a crate of one wing may link a crate of the other outside tests. Simulators, benchmarks
/// and tools may use both wings.
fn may_link(from: Option<&str>, to: Option<&str>) -> bool {
    match from {
        Some("common") => to == Some("common"),
        Some("array") => matches!(to, Some("common" | "array")),
        // The torture test over real iSCSI shares its workload with the simulator of datastores.
        Some("host") => matches!(to, Some("common" | "host" | "sim")),
        _ => true,
    }
}

fn judge(package: &Package) -> Vec<String> {
    let name = short(&package.name);
    let Some(part) = PARTS.iter().find(|p| p.name == name) else {
        return vec![format!("{name}: a crate that is not listed in xtask/src/arrows.rs")];
    };
    let wrong = |d: &Dependency| {
        let in_tests = d.kind.as_deref() == Some("dev");
        let dep = short(&d.name);
        if let Some(path) = &d.path {
            if !in_tests && !may_link(Path::new(&package.manifest_path).parent().and_then(wing), wing(Path::new(path)))
            {
                return Some(format!("{name}: may not link {dep}, which is in another wing"));
            }
            let allowed =
                part.may_use.contains(&dep) || in_tests && (dep == TEST_KIT || part.may_test_with.contains(&dep));
            (!allowed).then(|| format!("{name}: may not depend on {dep} (xtask/src/arrows.rs)"))
        } else {
            let outside = !in_tests && PURE.contains(&part.name) && OUTSIDE.contains(&dep);
            outside.then(|| format!("{name}: is pure and may not depend on {dep}"))
        }
    };
    package.dependencies.iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, dependency: &str) -> Vec<String> {
        let wing = match name {
            "engine" | "ondisk" | "iscsi-target" => "array",
            "ibid-host" => "host",
            _ => "common",
        };
        let json = format!(
            r#"{{"packages":[{{"name":"{name}","manifest_path":"/src/{wing}/{name}/Cargo.toml","dependencies":[{dependency}]}}]}}"#
        );
        check(&json).unwrap()
    }

    #[test]
    fn only_downward_arrows_are_allowed() {
        assert!(found("engine", r#"{"name":"ondisk","kind":null,"path":"array/ondisk"}"#).is_empty());
        assert_eq!(
            found("ondisk", r#"{"name":"engine","kind":null,"path":"array/engine"}"#),
            ["ondisk: may not depend on engine (xtask/src/arrows.rs)"]
        );
    }

    #[test]
    fn the_wings_never_link_each_other() {
        let array = r#"{"name":"initiator","kind":null,"path":"/src/host/initiator"}"#;
        assert_eq!(found("engine", array), ["engine: may not link initiator, which is in another wing"]);
        let common = r#"{"name":"engine","kind":null,"path":"/src/array/engine"}"#;
        assert_eq!(found("iscsi", common), ["iscsi: may not link engine, which is in another wing"]);
        assert!(may_link(Some("sim"), Some("array")) && may_link(Some("host"), Some("common")));
    }

    #[test]
    fn the_host_kit_never_tests_with_the_engine() {
        assert_eq!(found("ibid-host", r#"{"name":"engine","kind":"dev","path":"array/engine"}"#).len(), 1);
    }

    #[test]
    fn tests_may_use_what_the_list_allows_them() {
        assert!(found("iscsi-target", r#"{"name":"initiator","kind":"dev","path":"host/initiator"}"#).is_empty());
        assert_eq!(found("iscsi-target", r#"{"name":"initiator","kind":null,"path":"host/initiator"}"#).len(), 1);
    }

    #[test]
    fn pure_crates_link_a_runtime_only_in_tests() {
        assert_eq!(found("iscsi", r#"{"name":"tokio","kind":null}"#), ["iscsi: is pure and may not depend on tokio"]);
        assert!(found("iscsi", r#"{"name":"tokio","kind":"dev"}"#).is_empty());
        assert!(found("iscsi-target", r#"{"name":"tokio","kind":null}"#).is_empty());
    }

    #[test]
    fn an_unknown_crate_must_be_placed() {
        assert_eq!(found("novel", "").len(), 1);
    }

    #[test]
    fn the_arrows_have_no_cycle() {
        // Parts are listed from the bottom up: each uses only parts above it in the list.
        for (i, part) in PARTS.iter().enumerate() {
            for used in part.may_use {
                let at = PARTS.iter().position(|p| p.name == *used).expect("arrows name crates");
                assert!(at < i, "{} -> {used}", part.name);
            }
        }
    }
}
