//! The command line: what all verbs share.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use initiator::{Config, Digest, LogicalUnit, Session, Url};
use units::parse_capacity;

/// Who we are and how the session is negotiated.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// The initiator name to log in with
    #[arg(long, value_name = "IQN", default_value = "iqn.2026-11.org.ibid:host", env = "IBID_HOST_IQN")]
    pub initiator: String,
    /// Ask for header digests (CRC32C)
    #[arg(long)]
    pub header_digest: bool,
    /// Ask for data digests (CRC32C)
    #[arg(long)]
    pub data_digest: bool,
    /// Ask for ImmediateData=No: no data travel with a command
    #[arg(long)]
    pub no_immediate: bool,
    /// Ask for InitialR2T=Yes: no data travel before the target asks for them
    #[arg(long)]
    pub initial_r2t: bool,
    /// FirstBurstLength to offer
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256K")]
    pub first_burst: u64,
    /// MaxBurstLength to offer
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1M")]
    pub max_burst: u64,
}

impl ConnectionArgs {
    fn config(&self, url: &Url) -> Result<Config, Failure> {
        let length = |bytes: u64, option: &str| {
            let fits = u32::try_from(bytes).ok().filter(|bytes| (512..1 << 24).contains(bytes));
            fits.ok_or_else(|| Failure::usage(format!("{option} {bytes} is out of range"), "512 to 16777215 bytes are possible"))
        };
        let digest = |on: bool| if on { Digest::Crc32c } else { Digest::None };
        Ok(Config {
            header_digest: digest(self.header_digest),
            data_digest: digest(self.data_digest),
            immediate_data: !self.no_immediate,
            initial_r2t: self.initial_r2t,
            first_burst: length(self.first_burst, "--first-burst")?,
            max_burst: length(self.max_burst, "--max-burst")?,
            ..Config::new(&self.initiator, url)
        })
    }

    /// Logs in and asks what the logical unit is.
    pub async fn open(&self, url: &Url) -> Result<(Session, LogicalUnit), Failure> {
        if url.target.is_empty() {
            return Err(Failure::usage(format!("{url} names no target"), "ibid-host targets URL lists the targets of a portal"));
        }
        let mut session = Session::connect(&self.config(url)?).await?;
        let unit = session.open_unit(url.lun).await.map_err(Failure::command(format!("LUN {}", url.lun)))?;
        Ok((session, unit))
    }

    /// The targets behind a portal, and where each is to be had.
    pub async fn discover(&self, url: &Url) -> Result<Vec<initiator::Target>, Failure> {
        Ok(Session::discover(&self.config(url)?).await?)
    }
}

/// What the blocks of a load hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Zeros
    Zero,
    /// Bytes that neither compress nor repeat
    Random,
    /// Each 4 KiB half random, half zeros
    Mixed,
}

/// A run of bytes of a logical unit, as blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Region {
    /// The region of `size` bytes (all that is left of the unit, without) from `offset`.
    pub fn of(unit: &LogicalUnit, offset: u64, size: Option<u64>) -> Result<Self, Failure> {
        let block = u64::from(unit.block_bytes);
        let capacity = unit.blocks * block;
        let size = size.unwrap_or(capacity.saturating_sub(offset));
        if offset % block != 0 || size % block != 0 || size == 0 {
            let message = format!("{size} bytes from {offset} are no whole blocks of {block} bytes");
            return Err(Failure::usage(message, "give a size and an offset that are multiples of the block"));
        }
        if offset.checked_add(size).is_none_or(|end| end > capacity) {
            let message = format!("{size} bytes from {offset} pass the end of the logical unit, {capacity} bytes");
            return Err(Failure::usage(message, "choose a smaller --size or --off"));
        }
        Ok(Self { lba: offset / block, blocks: size / block })
    }
}

/// A size on the command line: `4K`, `1.5GiB`.
pub fn size(text: &str) -> Result<u64, units::CapacityError> {
    parse_capacity(text)
}
