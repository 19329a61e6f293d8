//! Command-line options that several verbs share.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use initiator::{InitiatorConfig, LogicalUnit, Session, TargetRecord, Url};
use iscsi::Digests;

/// Initiator name and session parameters to negotiate.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArgs {
    /// Initiator name to log in with
    #[arg(long, value_name = "IQN", default_value = "iqn.2026-11.org.ibid:host", env = "IBID_HOST_IQN")]
    pub(crate) initiator: String,
    /// Request header digests (CRC32C)
    #[arg(long)]
    pub(crate) header_digest: bool,
    /// Request data digests (CRC32C)
    #[arg(long)]
    pub(crate) data_digest: bool,
    /// Offer CHAP with MD5 only (for targets such as tgt)
    #[arg(long)]
    pub(crate) chap_md5: bool,
    /// Request ImmediateData=No: send no data with the command
    #[arg(long)]
    pub(crate) no_immediate: bool,
    /// Request InitialR2T=Yes: send data only after an R2T
    #[arg(long)]
    pub initial_r2t: bool,
    /// FirstBurstLength to offer
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256K")]
    pub(crate) first_burst: u64,
    /// MaxBurstLength to offer
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1M")]
    pub(crate) max_burst: u64,
}

impl ConnectionArgs {
    /// Returns the login configuration for `url`.
    pub(crate) fn config(&self, url: &Url) -> Result<InitiatorConfig, Failure> {
        let length = |bytes: u64, option: &str| {
            let fits = u32::try_from(bytes).ok().filter(|bytes| (512..1 << 24).contains(bytes));
            fits.ok_or_else(|| Failure::usage(format!("{option} {bytes} is out of range"), "use 512 to 16777215 bytes"))
        };
        Ok(InitiatorConfig {
            chap_md5: self.chap_md5,
            digests: self.digests(),
            immediate_data: !self.no_immediate,
            initial_r2t: self.initial_r2t,
            first_burst: length(self.first_burst, "--first-burst")?,
            max_burst: length(self.max_burst, "--max-burst")?,
            ..InitiatorConfig::new(&self.initiator, url)
        })
    }

    fn digests(&self) -> Digests {
        Digests { header: self.header_digest, data: self.data_digest }
    }

    /// Logs in to the target of `url`.
    /// Fails if the target declines a requested digest, because a measurement without digests is
    /// not comparable.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Session, Failure> {
        if url.target.is_empty() {
            let hint = "run `ibid-host targets URL` to list the targets of a portal";
            return Err(Failure::usage(format!("URL {url} has no target name"), hint));
        }
        let session = Session::connect(&self.config(url)?).await?;
        let (asked, agreed) = (self.digests(), session.parameters().digests);
        if (asked.header && !agreed.header) || (asked.data && !agreed.data) {
            return Err(Failure::usage(
                "target declined the requested digests",
                "omit --header-digest and --data-digest",
            ));
        }
        Ok(session)
    }

    /// Logs in and reads the properties of the logical unit.
    pub(crate) async fn open(&self, url: &Url) -> Result<(Session, LogicalUnit), Failure> {
        let mut session = self.connect(url).await?;
        let unit = session.open_unit(url.lun).await.map_err(Failure::command(format!("LUN {}", url.lun)))?;
        Ok((session, unit))
    }

    /// Returns the targets that a portal reports, with their addresses.
    pub(crate) async fn discover(&self, url: &Url) -> Result<Vec<TargetRecord>, Failure> {
        Ok(Session::discover(&self.config(url)?).await?)
    }
}

/// Content of the blocks that a load writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// Zeros
    Zero,
    /// Bytes that neither compress nor repeat
    Random,
    /// Random first half and zero second half of each 4 KiB
    Mixed,
}

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
}

impl Region {
    /// Converts `size` bytes from byte `offset` to blocks; without `size`, up to the end of the
    /// unit.
    ///
    /// # Errors
    ///
    /// Fails if the range is empty, is not block-aligned or passes the end of the unit.
    pub(crate) fn of(unit: &LogicalUnit, offset: u64, size: Option<u64>) -> Result<Self, Failure> {
        let block = u64::from(unit.block_bytes);
        let capacity = unit.blocks.saturating_mul(block);
        let size = size.unwrap_or(capacity.saturating_sub(offset));
        if !offset.is_multiple_of(block) || !size.is_multiple_of(block) || size == 0 {
            let message = format!("{size} bytes at offset {offset} are not whole blocks of {block} bytes");
            return Err(Failure::usage(message, "use a size and an offset that are multiples of the block size"));
        }
        if offset.checked_add(size).is_none_or(|end| end > capacity) {
            let message = format!("{size} bytes at offset {offset} exceed the logical unit of {capacity} bytes");
            return Err(Failure::usage(message, "use a smaller --size or --off"));
        }
        Ok(Self { lba: offset / block, blocks: size / block })
    }
}

/// Parses a size from the command line, such as `4K` or `1.5GiB`.
pub(crate) fn size(text: &str) -> Result<u64, types::CapacityError> {
    types::parse_capacity(text)
}
