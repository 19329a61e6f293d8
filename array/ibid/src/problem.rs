//! What is said when something does not work: what went wrong, and a hint what to do about it.

use client::ClientError;
use std::fmt;

/// What went wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Problem {
    error: anyhow::Error,
    hint: Option<String>,
}

impl Problem {
    /// A problem in words.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { error: anyhow::anyhow!("{message}"), hint: None }
    }

    /// The same, with a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writes it to standard error. A reader that has gone away is no reason to fail in another way.
    pub(crate) fn report(&self) {
        use std::io::Write;
        let mut stderr = std::io::stderr().lock();
        for line in format!("{:#}", self.error).lines() {
            let _ = writeln!(stderr, "error: {line}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(stderr, "hint: {hint}");
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Problem {
    fn from(error: E) -> Self {
        let error = error.into();
        let hint = error.downcast_ref::<ClientError>().and_then(hint_for).map(ToOwned::to_owned);
        Self { error, hint }
    }
}

/// What helps against a refusal that has these words; the first that fits.
const HINTS: [(&str, &str); 24] = [
    ("snapshot cannot be deleted due to existing", "disconnect it first: ibid host disconnect HOST VOLUME.SUFFIX"),
    ("snapshot has been destroyed", "ibid snap recover NAME brings it back"),
    ("snapshot is not destroyed", "it is in use; eradicating one takes ibid snap destroy NAME first"),
    ("snapshot does not exist", "ibid snap list shows which there are"),
    ("snapshot already exists", "choose another suffix; without one it gets a number"),
    ("Volume cannot be deleted due to existing", "disconnect it first: ibid host disconnect HOST VOLUME"),
    ("Host cannot be deleted due to existing", "disconnect its volumes first: ibid host disconnect HOST VOLUME"),
    ("Volume has been destroyed", "ibid volume recover NAME brings it back"),
    ("Volume is not destroyed", "it is in use; eradicating one takes ibid volume destroy NAME first"),
    ("Volume does not exist", "ibid volume list shows which there are, ibid snap list their snapshots"),
    (
        "Volume already exists",
        "ibid volume list --all shows all, destroyed ones too; a copy takes the place of one with --overwrite",
    ),
    ("overwritten with itself", "name a snapshot of it, or another volume, as the source"),
    ("Host does not exist", "ibid host list shows which there are"),
    ("Host already exists", "ibid host list shows which there are; ibid host set NAME changes one"),
    ("say truncate", "ibid volume resize NAME --size SIZE --truncate"),
    ("Connection already exists", "ibid host show HOST shows its LUNs; disconnect it first to give it another"),
    ("Connection does not exist", "ibid host show HOST shows what it sees"),
    ("is already in use on host", "ibid host show HOST shows those in use; without --lun the lowest free one is taken"),
    (
        "IQN is already in use",
        "an initiator belongs to one host: take it from there, or connect the volume to that host",
    ),
    ("has no such IQN", "ibid host show HOST shows its initiators"),
    ("'host_password' is missing", "--chap-secret-file FILE goes with --chap-user"),
    ("'target_password' is missing", "--target-secret-file FILE goes with --target-user"),
    ("Invalid filter", "such as --filter \"name='vm-*' and provisioned > 1099511627776\"; --json shows the fields"),
    (
        "array cannot be grown",
        "a file grows as far as its file system lets it; a device has to be that large before; the array's log says more",
    ),
];

/// What helps against an error of the array, as far as it can be told from its text, which is part of the interface.
fn hint_for(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Refused(errors) => {
            let is_about = |text: &str| errors.iter().any(|error| error.message.contains(text));
            HINTS.iter().find(|(text, _)| is_about(text)).map(|(_, hint)| *hint)
        }
        ClientError::Unauthorized => {
            Some("the token is in DIR/admin-token on the array's machine; set IBID_TOKEN, or use --data DIR")
        }
        ClientError::Unreachable { reason, .. } if reason.contains("not the one that is trusted") => Some(
            "compare the fingerprint with that of DIR/certificate.pem on the array's machine, and set IBID_FINGERPRINT",
        ),
        ClientError::Unreachable { .. } => Some("is the array running? ibid serve --data DIR starts it"),
        ClientError::BadUrl(_) | ClientError::NotUnderstood { .. } => None,
    }
}
