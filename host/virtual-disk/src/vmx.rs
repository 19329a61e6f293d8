//! The text of a `.vmx`: the settings of a virtual machine, one `key = "value"` per line.

use std::fmt;
use thiserror::Error;

/// The largest `.vmx` that is parsed, in bytes.
pub const MAX_VMX_BYTES: usize = 256 << 10;

/// The settings of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vmx {
    /// Display name.
    pub display_name: String,
    /// The guest's operating system, as VMware's identifier.
    pub guest_os: String,
    /// Memory in MiB, which is also the size of the swap file.
    pub memory_mib: u32,
    /// Number of virtual processors.
    pub processors: u32,
    /// The virtual hardware version. From version 11 on, a guest may send UNMAP.
    pub hardware_version: u32,
    /// The descriptors of the disks, in the order of their SCSI targets. A path in another
    /// directory starts with `/`.
    pub disks: Vec<String>,
    /// Whether this is a template, which can be deployed but not powered on.
    pub template: bool,
}

/// Why a text is not a valid `.vmx`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VmxError {
    /// The text is too long or has no `config.version`.
    #[error("not a virtual machine configuration")]
    NotAVmx,
    /// A required key is missing or invalid.
    #[error("{0} is missing or invalid")]
    Key(&'static str),
}

impl Vmx {
    /// Creates the machine that VMware's guide uses for measurements: 4 processors, 8 GiB, Windows
    /// Server 2012 R2.
    pub fn new(display_name: &str) -> Self {
        Self {
            display_name: display_name.to_owned(),
            guest_os: "windows8srv-64".to_owned(),
            memory_mib: 8192,
            processors: 4,
            hardware_version: 11,
            disks: Vec::new(),
            template: false,
        }
    }

    /// Parses the settings.
    pub fn parse(text: &str) -> Result<Self, VmxError> {
        let value = |key: &str| {
            let assigned = text.lines().filter_map(|line| line.split_once('='));
            let found = assigned.into_iter().find(|(k, _)| k.trim().eq_ignore_ascii_case(key));
            found.map(|(_, value)| unquoted(value.trim()))
        };
        if text.len() > MAX_VMX_BYTES || value("config.version").is_none() {
            return Err(VmxError::NotAVmx);
        }
        let number = |key: &'static str| value(key).and_then(|v| v.parse().ok()).ok_or(VmxError::Key(key));
        let disks = (0..16).filter_map(|target| value(&format!("scsi0:{target}.fileName")));
        Ok(Self {
            display_name: value("displayName").ok_or(VmxError::Key("displayName"))?,
            guest_os: value("guestOS").unwrap_or_else(|| "other".to_owned()),
            memory_mib: number("memSize")?,
            processors: value("numvcpus").and_then(|v| v.parse().ok()).unwrap_or(1),
            hardware_version: number("virtualHW.version")?,
            disks: disks.collect(),
            template: value("ibid.template").is_some_and(|v| v.eq_ignore_ascii_case("true")),
        })
    }
}

/// Escapes characters that would end the quotes as `|22`, as VMware does.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '|' | '#' | '\n' | '\r' => format!("|{:02X}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn unquoted(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value.trim_matches('"');
    while let Some((before, after)) = rest.split_once('|') {
        text.push_str(before);
        match after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                text.push('|');
                rest = after;
            }
        }
    }
    text + rest
}

impl fmt::Display for Vmx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, ".encoding = \"UTF-8\"\nconfig.version = \"8\"")?;
        writeln!(f, "virtualHW.version = \"{}\"", self.hardware_version)?;
        writeln!(f, "displayName = \"{}\"\nguestOS = \"{}\"", quoted(&self.display_name), quoted(&self.guest_os))?;
        writeln!(f, "memSize = \"{}\"\nnumvcpus = \"{}\"", self.memory_mib, self.processors)?;
        if self.template {
            writeln!(f, "ibid.template = \"TRUE\"")?;
        }
        writeln!(f, "scsi0.present = \"TRUE\"\nscsi0.virtualDev = \"pvscsi\"")?;
        for (target, disk) in self.disks.iter().enumerate() {
            writeln!(f, "scsi0:{target}.present = \"TRUE\"\nscsi0:{target}.fileName = \"{}\"", quoted(disk))?;
            writeln!(f, "scsi0:{target}.deviceType = \"scsi-hardDisk\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
