//! The calls of REST 1.x and their arguments: this table has all that are answered. The OpenAPI
//! document is made from it.

use Kind::{Flag, List, Number, Size, Text};

/// The version whose paths the OpenAPI document lists.
#[cfg(test)]
pub(crate) const DESCRIBED_VERSION: &str = "1.19";

/// The type of an argument. In a query, all are text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// Bytes as a number, or a text such as `10G`.
    Size,
    Text,
    /// Texts, or one text with commas.
    List,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) method: &'static str,
    /// Below the version. Parts in braces are names of objects.
    pub(crate) path: &'static str,
    pub(crate) args: &'static [(&'static str, Kind)],
}

const fn call(method: &'static str, path: &'static str, args: &'static [(&'static str, Kind)]) -> Described {
    Described { method, path, args }
}

/// Arguments of lists; those of one object are the same without the names.
const LIST_VOLUMES: &[(&str, Kind)] = &[
    ("names", List),
    ("action", Text),
    ("connect", Flag),
    ("pending", Flag),
    ("pending_only", Flag),
    ("protect", Flag),
    ("qos", Flag),
    ("snap", Flag),
    ("space", Flag),
];
const SHOW_VOLUME: &[(&str, Kind)] = LIST_VOLUMES.split_at(1).1;
const LIST_HOSTS: &[(&str, Kind)] =
    &[("names", List), ("action", Text), ("all", Flag), ("chap", Flag), ("personality", Flag), ("space", Flag)];
const SHOW_HOST: &[(&str, Kind)] = LIST_HOSTS.split_at(1).1;
const PUT_HOST: &[(&str, Kind)] = &[
    ("addiqnlist", List),
    ("addnqnlist", List),
    ("addwwnlist", List),
    ("host_password", Text),
    ("host_user", Text),
    ("iqnlist", List),
    ("name", Text),
    ("nqnlist", List),
    ("personality", Text),
    ("remiqnlist", List),
    ("remnqnlist", List),
    ("remwwnlist", List),
    ("target_password", Text),
    ("target_user", Text),
    ("wwnlist", List),
];
const LIST_GROUPS: &[(&str, Kind)] = &[
    ("names", List),
    ("pending", Flag),
    ("pending_only", Flag),
    ("retention", Flag),
    ("schedule", Flag),
    ("snap", Flag),
    ("space", Flag),
];
const SHOW_GROUP: &[(&str, Kind)] = LIST_GROUPS.split_at(1).1;
/// Members and targets that are refused with the reason.
const CREATE_GROUP: &[(&str, Kind)] = &[
    ("addhgrouplist", List),
    ("addhostlist", List),
    ("addtargetlist", List),
    ("hgrouplist", List),
    ("hostlist", List),
    ("targetlist", List),
    ("vollist", List),
];

/// All calls but logins.
pub(crate) const CALLS: &[Described] = &[
    call("GET", "/array", &[("action", Text), ("space", Flag)]),
    call("PUT", "/array", &[("name", Text)]),
    call("GET", "/array/connection", &[]),
    call("GET", "/hgroup", &[("names", List), ("space", Flag)]),
    call("GET", "/hgroup/{name}", &[]),
    call("POST", "/hgroup/{name}", &[("hostlist", List)]),
    call("PUT", "/hgroup/{name}", &[("addhostlist", List), ("name", Text), ("remhostlist", List)]),
    call("DELETE", "/hgroup/{name}", &[]),
    call("GET", "/hgroup/{name}/volume", &[]),
    call("POST", "/hgroup/{name}/volume/{volume}", &[("lun", Number)]),
    call("DELETE", "/hgroup/{name}/volume/{volume}", &[("lun", Number)]),
    call("GET", "/host", LIST_HOSTS),
    call("GET", "/host/{name}", SHOW_HOST),
    call("POST", "/host/{name}", PUT_HOST),
    call("PUT", "/host/{name}", PUT_HOST),
    call("DELETE", "/host/{name}", &[]),
    call("GET", "/host/{name}/volume", &[("private", Flag), ("shared", Flag)]),
    call("POST", "/host/{name}/volume/{volume}", &[("lun", Number)]),
    call("DELETE", "/host/{name}/volume/{volume}", &[("lun", Number)]),
    call("GET", "/pgroup", LIST_GROUPS),
    call("POST", "/pgroup", &[("apply_retention", Flag), ("snap", Flag), ("source", List), ("suffix", Text)]),
    call("GET", "/pgroup/{name}", SHOW_GROUP),
    call("POST", "/pgroup/{name}", CREATE_GROUP),
    call(
        "PUT",
        "/pgroup/{name}",
        &[
            ("action", Text),
            ("addhgrouplist", List),
            ("addhostlist", List),
            ("addtargetlist", List),
            ("addvollist", List),
            ("all_for", Number),
            ("days", Number),
            ("hgrouplist", List),
            ("hostlist", List),
            ("name", Text),
            ("per_day", Number),
            ("remvollist", List),
            ("snap_at", Number),
            ("snap_enabled", Flag),
            ("snap_frequency", Number),
            ("targetlist", List),
        ],
    ),
    call("DELETE", "/pgroup/{name}", &[("eradicate", Flag)]),
    call("GET", "/port", &[]),
    call("GET", "/volume", LIST_VOLUMES),
    call("POST", "/volume", &[("snap", Flag), ("source", List), ("suffix", Text)]),
    call("GET", "/volume/{name}", SHOW_VOLUME),
    call("POST", "/volume/{name}", &[("overwrite", Flag), ("size", Size), ("source", Text)]),
    call(
        "PUT",
        "/volume/{name}",
        &[
            ("action", Text),
            ("bandwidth_limit", Size),
            ("iops_limit", Size),
            ("name", Text),
            ("size", Size),
            ("truncate", Flag),
        ],
    ),
    call("DELETE", "/volume/{name}", &[("eradicate", Flag)]),
    call("GET", "/volume/{name}/hgroup", &[]),
    call("GET", "/volume/{name}/host", &[]),
    call("POST", "/volume/{name}/pgroup/{group}", &[]),
    call("DELETE", "/volume/{name}/pgroup/{group}", &[]),
];

/// Finds the call of a method and the parts of a path.
pub(super) fn find(method: &str, path: &[&str]) -> Option<&'static Described> {
    CALLS.iter().find(|call| {
        let parts = call.path.split('/').skip(1);
        let is_part = |(described, part): (&str, &&str)| described.starts_with('{') || described == *part;
        call.method == method && parts.clone().count() == path.len() && parts.zip(path).all(is_part)
    })
}
