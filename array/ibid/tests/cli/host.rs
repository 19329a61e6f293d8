//! A host that reads and writes a volume of the array over iSCSI.

use crate::array::Array;
use bytes::Bytes;
use initiator::{InitiatorConfig, LogicalUnit, RunError, Session, Url};

/// LBAs of 512 bytes in a block of 4 KiB.
pub(crate) const BLOCK: u64 = 8;

/// An iSCSI session with one logical unit.
pub(crate) struct Host {
    runtime: tokio::runtime::Runtime,
    session: Session,
    unit: LogicalUnit,
}

impl Host {
    /// Connects a volume or snapshot to a host that accepts any initiator, and logs in.
    pub(crate) fn new(array: &Array, volume: &str) -> Self {
        if array.json("host list").as_array().is_some_and(Vec::is_empty) {
            array.text("host create any --iqn *");
        }
        let lun = array.json(&format!("host connect any {volume}"))["lun"].as_u64().unwrap();
        Self::log_in(array, lun)
    }

    /// Logs in and opens the logical unit at `lun`.
    pub(crate) fn log_in(array: &Array, lun: u64) -> Self {
        let endpoints = array.endpoints();
        let (portal, iqn) = (endpoints["iscsi"][0].as_str().unwrap(), endpoints["iqn"].as_str().unwrap());
        let url: Url = format!("iscsi://{portal}/{iqn}/{lun}").parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = InitiatorConfig::new("iqn.2026-11.org.example:test", &url);
        let mut session = runtime.block_on(Session::connect(&config)).unwrap();
        let unit = runtime.block_on(session.open_unit(url.lun)).unwrap();
        Self { runtime, session, unit }
    }

    /// Number of LBAs of the logical unit.
    pub(crate) fn blocks(&self) -> u64 {
        self.unit.blocks
    }

    pub(crate) fn try_write(&mut self, lba: u64, data: Bytes) -> Result<Bytes, RunError> {
        self.runtime.block_on(self.session.run(self.unit.write(lba, data, false)))
    }

    pub(crate) fn write(&mut self, lba: u64, data: Bytes) {
        self.try_write(lba, data).unwrap();
    }

    pub(crate) fn try_read(&mut self, lba: u64, blocks: u32) -> Result<Bytes, RunError> {
        self.runtime.block_on(self.session.run(self.unit.read(lba, blocks, false)))
    }

    pub(crate) fn read(&mut self, lba: u64, blocks: u32) -> Bytes {
        self.try_read(lba, blocks).unwrap()
    }
}

/// Random bytes that neither compress nor deduplicate; the seed determines them.
pub(crate) fn noise(seed: u64, bytes: usize) -> Bytes {
    testing::noise(seed, bytes).into()
}
