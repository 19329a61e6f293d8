//! Names of objects and of iSCSI nodes.

use crate::CatalogError;

/// The most characters of an object's name.
pub const MAX_NAME_CHARS: usize = 63;
/// The initiator name that admits any initiator which no other host has.
pub const ANY_INITIATOR: &str = "*";
/// RFC 7143 4.2.7.1: an iSCSI name has at most 223 bytes.
const MAX_IQN_BYTES: usize = 223;

/// Checks the name of a volume, a host or the array: 1 to 63 letters, digits, `-` and `_`, at least one letter, with a
/// letter or digit at both ends (so that no name can be taken for an option of the command line).
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

/// Two names are the same name when they are equal but for case: this is the form that is compared.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Checks the name of an iSCSI node (RFC 7143 4.2.7: types `iqn.`, `eui.` and `naa.`) and gives it in lower case, as
/// names are compared; `*` stands for any initiator.
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

/// RFC 7143 4.2.7.4: `yyyy-mm.` and a reversed domain name, then anything that iSCSI names may hold.
fn qualified(rest: &str) -> bool {
    let Some((date, authority)) = rest.split_once('.') else {
        return false;
    };
    let date = date.as_bytes();
    let digits = |range: std::ops::Range<usize>| date[range].iter().all(u8::is_ascii_digit);
    let dated = date.len() == 7 && date[4] == b'-' && digits(0..4) && digits(5..7);
    // What stringprep leaves of a name: letters, digits, '-', '.', ':' and letters beyond ASCII; '_' is in the wild.
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    dated && !authority.is_empty() && authority.chars().all(allowed)
}
