//! `ibid-host deploy`: copies a template with EXTENDED COPY or by reading and writing through the
//! host.

use super::outcome::Tally;
use super::pieces::Pieces;
use crate::cli::{ConnectionArgs, Region, size};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::{Route, Work, pump};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use initiator::{Completion, CopyRun, LogicalUnit, Request, Session, Url};

/// Copy method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// EXTENDED COPY
    Xcopy,
    /// READ and WRITE
    Readwrite,
}

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeployArgs {
    /// Unit that holds the template
    pub(crate) source: Url,
    /// Unit for the copy; may be the same unit
    pub(crate) destination: Url,
    /// Bytes to copy [default: the rest of the source]
    #[arg(long, value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Start of the template in the source, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) source_off: u64,
    /// Start of the copy in the destination, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) destination_off: u64,
    /// Copy method
    #[arg(long, value_enum, default_value_t = Method::Xcopy)]
    pub(crate) method: Method,
    /// Bytes per command [default: 4M (as ESXi), 1M with readwrite]
    #[arg(long, value_parser = size)]
    pub(crate) chunk: Option<u64>,
    /// Queue depth
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// Print one JSON object and no progress bar
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Default bytes of an EXTENDED COPY, as ESXi sends it.
const CHUNK_XCOPY: u64 = 4 << 20;

/// A copy in progress: its two regions and the state of each slot.
struct Deployment {
    source: LogicalUnit,
    destination: LogicalUnit,
    from: Region,
    to: Region,
    pieces: Pieces,
    method: Method,
    /// Index of the session that writes.
    writer: Route,
    open: Vec<(u64, u32, Option<Bytes>)>,
    progress: Progress,
    tally: Tally,
}

impl Work for Deployment {
    fn next(&mut self, slot: usize) -> Option<(Route, Request)> {
        let moved = |lba: u64| lba - self.from.lba + self.to.lba;
        if let (lba, _, Some(data)) = &self.open[slot] {
            return Some((self.writer, self.destination.write(moved(*lba), data.clone(), false)));
        }
        let (lba, blocks) = self.pieces.next()?;
        self.open[slot] = (lba, blocks, None);
        let request = match self.method {
            Method::Xcopy => {
                let run = CopyRun { source: lba, destination: moved(lba), blocks: u64::from(blocks) };
                // The list identifier must be unique among the open copies of a session; the slot
                // number is.
                self.source.extended_copy(slot as u8, &self.destination, &[run])
            }
            Method::Readwrite => self.source.read(lba, blocks, false),
        };
        Some((0, request))
    }

    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure> {
        let (lba, blocks, read) = &mut self.open[slot];
        let what = match (self.method, &read) {
            (Method::Xcopy, _) => "EXTENDED COPY",
            (Method::Readwrite, None) => "READ",
            (Method::Readwrite, Some(_)) => "WRITE",
        };
        let refused = |refusal| Failure::Refused { what: format!("{what} of {blocks} blocks for LBA {lba}"), refusal };
        let data = completion.into_result().map_err(refused)?;
        if self.method == Method::Readwrite && read.take().is_none() {
            *read = Some(data);
            // The chunk counts as copied only when it is written.
            self.tally.commands += 1;
            return Ok(());
        }
        let bytes = u64::from(*blocks) * u64::from(self.source.block_bytes);
        self.tally.add(bytes);
        self.progress.add(bytes);
        Ok(())
    }
}

/// Runs the verb.
pub(crate) async fn run(args: &DeployArgs) -> Result<(), Failure> {
    let (mut session, source) = args.connection.open(&args.source).await?;
    let same_target = args.source.portal == args.destination.portal && args.source.target == args.destination.target;
    if args.method == Method::Xcopy && !same_target {
        return Err(Failure::usage("EXTENDED COPY needs both units on one target", "use --method readwrite"));
    }
    // Units of one target share a session, as on a real host.
    let (second, destination) = if same_target {
        let lun = args.destination.lun;
        (None, session.open_unit(lun).await.map_err(Failure::command(format!("LUN {lun}")))?)
    } else {
        let (second, destination) = args.connection.open(&args.destination).await?;
        (Some(second), destination)
    };
    let writer = usize::from(second.is_some());
    let mut work = plan(args, source, destination, writer)?;
    let mut sessions: Vec<Session> = [Some(session), second].into_iter().flatten().collect();
    pump(&mut sessions, usize::from(args.qd), &mut work).await?;
    let method = if args.method == Method::Xcopy { "xcopy" } else { "readwrite" };
    work.tally.end("deploy", method).print(args.json)
}

fn plan(
    args: &DeployArgs,
    source: LogicalUnit,
    destination: LogicalUnit,
    writer: Route,
) -> Result<Deployment, Failure> {
    if source.block_bytes != destination.block_bytes {
        return Err(Failure::usage("units have different block sizes", "use units with the same block size"));
    }
    let from = Region::of(&source, args.source_off, args.size)?;
    let bytes = from.blocks * u64::from(source.block_bytes);
    let to = Region::of(&destination, args.destination_off, Some(bytes))?;
    let overlaps = from.lba < to.lba + to.blocks && to.lba < from.lba + from.blocks;
    if source.lun == destination.lun && writer == 0 && overlaps {
        return Err(Failure::usage("source and destination ranges overlap", "use another --destination-off"));
    }
    let (chunk, limit) = match args.method {
        Method::Xcopy => (args.chunk.unwrap_or(CHUNK_XCOPY), 0),
        Method::Readwrite => {
            let limits = [source.limits.max_transfer, destination.limits.max_transfer];
            (super::data_chunk(args.chunk)?, limits.into_iter().filter(|limit| *limit > 0).min().unwrap_or(0))
        }
    };
    Ok(Deployment {
        pieces: Pieces::new(&source, from, chunk, limit)?,
        source,
        destination,
        from,
        to,
        method: args.method,
        writer,
        open: vec![(0, 0, None); usize::from(args.qd)],
        progress: Progress::new("deploy", bytes, args.json),
        tally: Tally::begin(),
    })
}
