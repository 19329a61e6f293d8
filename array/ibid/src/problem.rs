//! Errors as the user sees them: what failed and why, and a hint for the next step.

use api::ErrorCode;
use client::ClientError;
use std::fmt;

/// Exit code of a command that failed.
const FAILED: u8 = 1;

/// An error with an optional hint.
#[derive(Debug)]
pub(crate) struct Problem {
    error: anyhow::Error,
    hint: Option<String>,
    exit_code: u8,
}

impl Problem {
    /// A problem without a hint.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { error: anyhow::anyhow!("{message}"), hint: None, exit_code: FAILED }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the exit code of the program, which is 1 by default.
    pub(crate) fn exit_code(mut self, code: u8) -> Self {
        self.exit_code = code;
        self
    }

    /// Returns the error as one line.
    pub(crate) fn text(&self) -> String {
        format!("{:#}", self.error)
    }

    /// Returns the exit code of the program.
    pub(crate) fn code(&self) -> u8 {
        self.exit_code
    }

    /// Writes the error and the hint to standard error. Write errors are ignored: the command has
    /// failed already.
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
        let hint = error.downcast_ref::<ClientError>().and_then(client_hint).map(ToOwned::to_owned);
        Self { error, hint, exit_code: FAILED }
    }
}

fn client_hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Refused(errors) => errors.iter().find_map(|error| code_hint(error.code)),
        ClientError::Unauthorized => {
            Some("read the token from DIR/admin-token on the array's machine; set IBID_TOKEN, or use --data DIR")
        }
        ClientError::Untrusted { .. } => Some(
            "compare the fingerprint with that of DIR/certificate.pem on the array's machine; set IBID_FINGERPRINT",
        ),
        ClientError::Unreachable { .. } => {
            Some("check the address, and that the array runs: `ibid serve --data DIR` starts it")
        }
        ClientError::BadUrl(_) => Some("write HOST:PORT or https://HOST:PORT"),
        ClientError::NotUnderstood { .. } => Some("check that --url is the REST API address of an Ibid array"),
    }
}

/// The next step after the array refused a request about a group or a tag.
fn group_hint(code: ErrorCode) -> Option<&'static str> {
    use ErrorCode as Code;
    Some(match code {
        Code::HostGroupNotFound | Code::HostGroupExists | Code::HostGroupConnected => {
            "see GET /host-groups and GET /connections of the REST API"
        }
        Code::MemberNotFound | Code::AlreadyMember | Code::GroupHasMembers => {
            "see GET /host-groups/hosts of the REST API; remove the member first"
        }
        Code::ProtectionGroupNotFound | Code::ProtectionGroupExists | Code::GroupHasNoMembers => {
            "see GET /protection-groups and GET /protection-groups/volumes of the REST API"
        }
        Code::GroupSnapshotNotFound | Code::GroupSnapshotExists | Code::InGroupSnapshot => {
            "see GET /protection-group-snapshots of the REST API"
        }
        Code::PolicyNotFound => "run `ibid policy list` to list the policies and their rules",
        Code::PolicyExists => "choose another name, or use the policy that exists",
        Code::VolumeGroupNotFound => "run `ibid vgroup list --all` to list the volume groups",
        Code::VolumeGroupExists => "choose another name, or use the volume group that exists",
        Code::VolumeGroupDestroyed => "run `ibid vgroup recover GROUP` first",
        Code::VolumeGroupNotDestroyed => "run `ibid vgroup destroy GROUP` first",
        Code::OtherGroup => "`ibid vgroup add`, `ibid vgroup remove` and `ibid volume move` move a volume",
        Code::PodNotFound => "run `ibid pod list --all` to list the pods",
        Code::PodExists => "choose another name, or use the pod that exists",
        Code::PodDestroyed => "run `ibid pod recover POD` first",
        Code::PodNotDestroyed => "run `ibid pod destroy POD` first",
        Code::ArrayConnectionNotFound => "run `ibid array connections` to list the connected arrays",
        Code::PodNotStretched => "run `ibid pod stretch POD ARRAY` to bring it to a second array",
        Code::PodStretched => "run `ibid pod unstretch POD ARRAY` first",
        Code::PodRefused => "run `ibid pod why POD` for its state on this array",
        Code::ForceRequired => "add --force if the other array will not come back",
        Code::PodNotEmpty => "run `ibid volume list --all --filter \"pod.name='POD'\"` to list its volumes",
        Code::QuotaExceeded => "run `ibid pod set POD --quota SIZE` to raise the quota, or choose a smaller size",
        Code::QuotaBelowUsage => "run `ibid pod list POD` for the size of its volumes",
        Code::SharedConnection => "remove the connection from the host group, or the host from the group",
        Code::NotAllowed => "use the token of an administrator with a higher role, or ask one",
        Code::ApiClientExists => "choose another name; `ibid api-client list` lists the API clients",
        Code::ApiClientNotFound => "run `ibid api-client list` to list the API clients",
        Code::AdminExists => "choose another name; `ibid admin list` lists the administrators",
        Code::TagNotFound => "see GET /volumes/tags of the REST API",
        _ => return None,
    })
}

/// The next step after the array refused a request.
fn code_hint(code: ErrorCode) -> Option<&'static str> {
    use ErrorCode as Code;
    Some(match code {
        Code::InvalidName => "use 1 to 63 letters, digits, - and _, with a letter, and a letter or digit at each end",
        Code::InvalidSize => "choose a size from 1M to 4P that is a multiple of 512 bytes, such as 64G",
        Code::InvalidSetting => "choose a valid value; --help lists them",
        Code::InvalidIqn => "write an initiator name such as iqn.1998-01.com.vmware:esx1, or '*' for any initiator",
        Code::InvalidLun => "choose a LUN from 0 to 4095, or leave out --lun for the lowest free one",
        Code::InvalidChap => "use names of 1 to 255 characters and two different secrets of 12 to 255 characters",
        Code::InvalidFilter => {
            "write a filter such as \"name='vm-*' and provisioned > 1099511627776\"; --json shows the fields"
        }
        Code::InvalidSort => "sort by a field that --json shows",
        Code::InvalidRequest | Code::InvalidParameter | Code::Unsupported => {
            "run the command with --help for its options"
        }
        Code::HostUserMissing => "give --chap-user NAME as well",
        Code::HostPasswordMissing => "give --chap-secret-file FILE as well",
        Code::TargetUserMissing => "give --target-user NAME as well",
        Code::TargetPasswordMissing => "give --target-secret-file FILE as well",
        Code::VolumeNotFound => "run `ibid volume list --all` to list the volumes",
        Code::SnapshotNotFound => "run `ibid snap list --all` to list the snapshots",
        Code::HostNotFound => "run `ibid host list` to list the hosts",
        Code::ConnectionNotFound => "run `ibid host show HOST` to list the volumes of the host",
        Code::AdminNotFound => "use the administrator `admin`",
        Code::AlertNotFound => "run `ibid alert list --all` to list the alerts",
        Code::ArrayNotFound | Code::PartNotFound => "run `ibid array show` for the name of the array",
        Code::IqnNotFound => "run `ibid host show HOST` to list the initiators of the host",
        Code::VolumeExists => {
            "choose another name; `ibid volume list --all` lists those in use, `ibid volume copy --overwrite` replaces one"
        }
        Code::SnapshotExists => "choose another suffix, or leave out --suffix for a number",
        Code::HostExists => "choose another name, or run `ibid host set NAME` to change the host",
        Code::ConnectionExists => "run `ibid host show HOST` for its LUN; disconnect the volume first to change it",
        Code::VolumeDestroyed => "run `ibid volume recover NAME` to recover it",
        Code::SnapshotDestroyed => "run `ibid snap recover NAME` to recover it",
        Code::VolumeNotDestroyed => "it is in use; run `ibid volume destroy NAME` before eradicating it",
        Code::SnapshotNotDestroyed => "it is in use; run `ibid snap destroy NAME` before eradicating it",
        Code::VolumeConnected => "run `ibid host disconnect HOST VOLUME` first",
        Code::SnapshotConnected => "run `ibid host disconnect HOST VOLUME.SUFFIX` first",
        Code::HostConnected => "run `ibid host disconnect HOST VOLUME` for each of its volumes first",
        Code::CopyToItself => "choose a snapshot of it, or another volume, as the source",
        Code::WouldTruncate => "run `ibid volume resize NAME --size SIZE --truncate` to discard the data",
        Code::IqnInUse => "remove the initiator from that host, or connect the volume to that host",
        Code::LunInUse => "choose a LUN that `ibid host show HOST` does not list, or leave out --lun",
        Code::LimitReached => "eradicate or delete objects that are no longer needed",
        Code::CannotShrink => "choose a larger --capacity; an array only grows",
        Code::CannotGrow => "free space on the file system, or enlarge the device first; the array's log has details",
        Code::OutOfSpace => "grow the array (`ibid array grow`), or eradicate destroyed volumes",
        Code::ReadOnly => "stop the array, run `ibid fsck DIR --salvage`, and start it without --salvage",
        Code::TooManyLogins => "wait one minute and check the token",
        Code::Unauthorized => "set IBID_TOKEN, or use --data DIR",
        Code::Forbidden | Code::PathNotFound | Code::MethodNotAllowed | Code::BodyTooLarge | Code::BodyTimeout => {
            "use `ibid` and the array in the same version"
        }
        Code::Internal => "read the array's log for the cause",
        _ => return group_hint(code),
    })
}
