//! Validation of object names and of iSCSI node names.

use crate::CatalogError;
use crate::pod::POD_SEPARATOR;
use crate::volume_group::GROUP_SEPARATOR;

/// Maximum number of characters in an object name.
pub const MAX_NAME_CHARS: usize = 63;
/// Initiator name that matches every initiator not assigned to another host.
pub const ANY_INITIATOR: &str = "*";
/// Maximum length of an iSCSI name in bytes (RFC 7143 4.2.7.1).
const MAX_IQN_BYTES: usize = 223;

/// Checks the name of a volume, a host or the array.
///
/// A name has 1 to 63 letters, digits, `-` and `_`, with at least one letter. It starts and ends
/// with a letter or digit, so that it cannot be mistaken for a command-line option.
pub fn check_name(name: &str) -> Result<(), CatalogError> {
    let characters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let good = characters
        && name.len() <= MAX_NAME_CHARS
        && ends(name.chars().next())
        && ends(name.chars().last())
        && name.chars().any(|c| c.is_ascii_alphabetic());
    if good { Ok(()) } else { Err(CatalogError::BadName { name: name.to_owned() }) }
}

/// Suffix of the snapshots that the array takes to verify a stretched pod.
pub const VERIFY_SUFFIX: &str = "ibid-verify";

/// Checks the suffix of a snapshot: it is as a name, and not reserved.
pub(crate) fn check_suffix(suffix: &str) -> Result<(), CatalogError> {
    check_name(suffix)?;
    match suffix.eq_ignore_ascii_case(VERIFY_SUFFIX) {
        true => Err(CatalogError::ReservedSuffix { name: suffix.to_owned() }),
        false => Ok(()),
    }
}

/// The container that the name of a volume begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerName<'n> {
    Group(&'n str),
    Pod(&'n str),
}

/// Splits the name of a volume, `VOLUME`, `GROUP/VOLUME` or `POD::VOLUME`, into the name of its
/// container and the part that does not change when the volume moves.
pub(crate) fn split_name(name: &str) -> (Option<ContainerName<'_>>, &str) {
    if let Some((pod, own)) = name.split_once(POD_SEPARATOR) {
        return (Some(ContainerName::Pod(pod)), own);
    }
    match name.split_once(GROUP_SEPARATOR) {
        Some((group, own)) => (Some(ContainerName::Group(group)), own),
        None => (None, name),
    }
}

/// Returns the form of a name that is used for comparison, which ignores case.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Checks an iSCSI node name (RFC 7143 4.2.7: types `iqn.`, `eui.` and `naa.`) and returns it in
/// lower case, the form used for comparison. `*` matches any initiator.
pub fn check_iqn(iqn: &str) -> Result<String, CatalogError> {
    if iqn == ANY_INITIATOR {
        return Ok(iqn.to_owned());
    }
    let lower = iqn.to_ascii_lowercase();
    let hex =
        |rest: &str, lengths: &[usize]| lengths.contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_hexdigit());
    let good = lower.len() <= MAX_IQN_BYTES
        && match lower.split_at_checked(4) {
            Some(("iqn.", rest)) => qualified(rest),
            Some(("eui.", rest)) => hex(rest, &[16]),
            Some(("naa.", rest)) => hex(rest, &[16, 32]),
            _ => false,
        };
    if good { Ok(lower) } else { Err(CatalogError::BadIqn { iqn: iqn.to_owned() }) }
}

/// Checks `yyyy-mm.`, a reversed domain name and any valid iSCSI characters (RFC 7143 4.2.7.4).
fn qualified(rest: &str) -> bool {
    let Some((date, authority)) = rest.split_once('.') else {
        return false;
    };
    let date = date.as_bytes();
    let digits = |range: std::ops::Range<usize>| date[range].iter().all(u8::is_ascii_digit);
    let dated = date.len() == 7 && date[4] == b'-' && digits(0..4) && digits(5..7);
    // Characters left by stringprep: letters, digits, '-', '.', ':' and non-ASCII letters. '_'
    // occurs in practice.
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    dated && !authority.is_empty() && authority.chars().all(allowed)
}
