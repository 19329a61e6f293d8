//! Which crate may depend on which. The folders follow a write from the host to the drive, and so do the arrows: a part
//! may use only parts below it, and the parts that are pure (values in, values out) may not reach the outside at all.

use anyhow::Result;
use serde::Deserialize;

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
    part("units", &[]),
    part("world", &["units"]),
    // The wire.
    part("scsi", &["units"]),
    part("iscsi", &["units", "scsi"]),
    // The engine.
    part("reduce", &["units"]),
    part("store", &["units", "world"]),
    part("journal", &["units", "world"]),
    part("map", &["units", "store"]),
    part("fsck", &["units", "world", "reduce", "store", "journal", "map"]),
    part("engine", &["units", "world", "reduce", "store", "journal", "map", "fsck"]),
    // The array.
    part("catalog", &["units", "engine"]),
    Part {
        name: "target",
        may_use: &["units", "world", "scsi", "iscsi", "engine", "catalog"],
        may_test_with: &["store", "initiator"],
    },
    part("api", &["units"]),
    Part {
        name: "rest",
        may_use: &["units", "world", "api", "catalog", "engine"],
        may_test_with: &["store", "client"],
    },
    part("client", &["units", "api"]),
    Part {
        name: "ibid",
        may_use: &["units", "world", "store", "fsck", "engine", "catalog", "target", "api", "rest", "client"],
        may_test_with: &["scsi", "iscsi", "initiator"],
    },
    // The host's side: an independent witness, which never links the engine.
    part("initiator", &["units", "world", "scsi", "iscsi"]),
    part("device", &["units", "world", "scsi", "iscsi", "initiator"]),
    part("datastore", &["units", "world", "scsi", "device"]),
    part("esxhost", &["units", "world", "scsi", "iscsi", "initiator", "device"]),
    part("vdisk", &["units", "world", "device", "datastore", "esxhost"]),
    part("lab", &["world", "scsi", "initiator", "device", "datastore", "vdisk"]),
    part(
        "ibid-host",
        &["units", "world", "scsi", "iscsi", "initiator", "device", "datastore", "esxhost", "vdisk", "lab"],
    ),
    // Around them.
    part("sim", &["units", "world", "store", "journal", "map", "fsck", "engine"]),
    part("bench", &["units", "world", "reduce", "store", "journal", "map", "engine", "initiator"]),
    part("xtask", &[]),
];

/// Crates that are pure, and what they may not link for it.
const PURE: &[&str] = &["units", "scsi", "iscsi", "reduce", "map", "api"];
const OUTSIDE: &[&str] = &["tokio", "rustix", "libc", "getrandom", "rand", "mio", "socket2", "io-uring"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
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

fn judge(package: &Package) -> Vec<String> {
    let name = &package.name;
    let Some(part) = PARTS.iter().find(|p| p.name == name) else {
        return vec![format!("{name}: a crate that xtask/src/arrows.rs does not place")];
    };
    let wrong = |d: &Dependency| {
        let in_tests = d.kind.as_deref() == Some("dev");
        let dep = d.name.as_str();
        if d.path.is_some() {
            let allowed = part.may_use.contains(&dep) || in_tests && part.may_test_with.contains(&dep);
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
        let json = format!(r#"{{"packages":[{{"name":"{name}","dependencies":[{dependency}]}}]}}"#);
        check(&json).unwrap()
    }

    #[test]
    fn an_arrow_down_is_allowed_and_one_up_is_not() {
        assert!(found("engine", r#"{"name":"store","kind":null,"path":"crates/store"}"#).is_empty());
        assert_eq!(
            found("store", r#"{"name":"engine","kind":null,"path":"crates/engine"}"#),
            ["store: may not depend on engine (xtask/src/arrows.rs)"]
        );
    }

    #[test]
    fn the_host_never_links_the_engine_not_even_in_tests() {
        assert_eq!(found("ibid-host", r#"{"name":"engine","kind":"dev","path":"crates/engine"}"#).len(), 1);
    }

    #[test]
    fn tests_may_reach_further_where_it_says_so() {
        assert!(found("target", r#"{"name":"initiator","kind":"dev","path":"host/initiator"}"#).is_empty());
        assert_eq!(found("target", r#"{"name":"initiator","kind":null,"path":"host/initiator"}"#).len(), 1);
    }

    #[test]
    fn pure_parts_link_no_runtime_but_may_in_tests() {
        assert_eq!(found("iscsi", r#"{"name":"tokio","kind":null}"#), ["iscsi: is pure and may not depend on tokio"]);
        assert!(found("iscsi", r#"{"name":"tokio","kind":"dev"}"#).is_empty());
        assert!(found("target", r#"{"name":"tokio","kind":null}"#).is_empty());
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
