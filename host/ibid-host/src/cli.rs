//! The command line: what all verbs share.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use initiator::{InitiatorConfig, LogicalUnit, Session, TargetRecord, Url};
use iscsi::Digests;

/// Who we are and how the session is negotiated.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArgs {
    /// The initiator name to log in with
    #[arg(long, value_name = "IQN", default_value = "iqn.2026-11.org.ibid:host", env = "IBID_HOST_IQN")]
    pub(crate) initiator: String,
    /// Ask for header digests (CRC32C)
    #[arg(long)]
    pub(crate) header_digest: bool,
    /// Ask for data digests (CRC32C)
    #[arg(long)]
    pub(crate) data_digest: bool,
    /// Offer CHAP with MD5 only, for targets that know nothing else or take SHA-256 for SHA-1, as tgt does
    #[arg(long)]
    pub(crate) chap_md5: bool,
    /// Ask for ImmediateData=No: no data travel with a command
    #[arg(long)]
    pub(crate) no_immediate: bool,
    /// Ask for InitialR2T=Yes: no data travel before the target asks for them
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
    /// How to log in at a URL.
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

    /// Logs in. Digests that were asked for must be in force: a measurement without them would be another one.
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

    /// Logs in and asks what the logical unit is.
    pub(crate) async fn open(&self, url: &Url) -> Result<(Session, LogicalUnit), Failure> {
        let mut session = self.connect(url).await?;
        let unit = session.open_unit(url.lun).await.map_err(Failure::command(format!("LUN {}", url.lun)))?;
        Ok((session, unit))
    }

    /// The targets behind a portal, and where each is to be had.
    pub(crate) async fn discover(&self, url: &Url) -> Result<Vec<TargetRecord>, Failure> {
        Ok(Session::discover(&self.config(url)?).await?)
    }
}

/// What the blocks of a load hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// Zeros
    Zero,
    /// Bytes that neither compress nor repeat
    Random,
    /// Each 4 KiB half random, half zeros
    Mixed,
}

/// A run of bytes of a logical unit, as blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First block.
    pub(crate) lba: u64,
    /// Number of blocks.
    pub(crate) blocks: u64,
}

impl Region {
    /// The region of `size` bytes (all that is left of the unit, without) from `offset`.
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

/// A size on the command line: `4K`, `1.5GiB`.
pub(crate) fn size(text: &str) -> Result<u64, types::CapacityError> {
    types::parse_capacity(text)
}
