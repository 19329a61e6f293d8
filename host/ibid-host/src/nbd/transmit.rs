//! The transmission phase: requests run concurrently and are answered in the order of completion.

use super::export::{Export, protocol};
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

/// Largest payload of a request, in bytes.
pub(super) const MAX_BYTES: u32 = 4 << 20;
/// Requests of one connection that are in progress.
pub(super) const MAX_REQUESTS: usize = 32;
/// Bytes that WRITE_ZEROES writes at a time.
const ZERO_BYTES: u64 = 1 << 20;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const FUA: u16 = 1;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// A request of the client.
struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u32,
    data: Bytes,
}

/// Serves requests until the client disconnects.
pub(super) async fn transmit<S>(stream: S, export: Arc<dyn Export>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (answers, mut waiting) = mpsc::channel::<Vec<Bytes>>(MAX_REQUESTS);
    let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
    let read = async move {
        while let Some(request) = read_request(&mut reader).await? {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let (export, answers) = (Arc::clone(&export), answers.clone());
            tokio::spawn(async move {
                let answer = answer(&*export, request).await;
                drop(slot);
                // The connection may have ended.
                let _ = answers.send(answer).await;
            });
        }
        Ok(())
    };
    let write = async move {
        while let Some(parts) = waiting.recv().await {
            for part in parts {
                writer.write_all(&part).await?;
            }
            writer.flush().await?;
        }
        writer.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// Reads a request; `None` if the client disconnects.
async fn read_request<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<Request>> {
    if reader.read_u32().await? != REQUEST_MAGIC {
        return Err(protocol("request magic"));
    }
    let (flags, kind) = (reader.read_u16().await?, reader.read_u16().await?);
    let (cookie, offset, length) = (reader.read_u64().await?, reader.read_u64().await?, reader.read_u32().await?);
    let mut data = BytesMut::new();
    match kind {
        DISCONNECT => return Ok(None),
        WRITE if length > MAX_BYTES => return Err(protocol("write length")),
        WRITE => {
            data.resize(length as usize, 0);
            reader.read_exact(&mut data).await?;
        }
        _ => {}
    }
    Ok(Some(Request { flags, kind, cookie, offset, length, data: data.freeze() }))
}

/// Runs a request; returns the parts of its answer.
async fn answer(export: &dyn Export, request: Request) -> Vec<Bytes> {
    let cookie = request.cookie;
    let (error, data) = match run(export, request).await {
        Ok(data) => (0, data),
        Err(error) => (error, Bytes::new()),
    };
    let mut head = Vec::with_capacity(16);
    head.extend(REPLY_MAGIC.to_be_bytes());
    head.extend(error.to_be_bytes());
    head.extend(cookie.to_be_bytes());
    vec![head.into(), data]
}

async fn run(export: &dyn Export, request: Request) -> Result<Bytes, u32> {
    let Request { flags, kind, offset, length, data, .. } = request;
    let bytes = u64::from(length);
    let end = offset.checked_add(bytes).ok_or(EINVAL)?;
    if kind != FLUSH {
        if end > export.bytes() {
            return Err(if kind == WRITE || kind == WRITE_ZEROES { ENOSPC } else { EINVAL });
        }
        if !offset.is_multiple_of(512) || !bytes.is_multiple_of(512) || (kind == READ && length > MAX_BYTES) {
            return Err(EINVAL);
        }
    }
    let failed = |error: io::Error| if error.kind() == io::ErrorKind::StorageFull { ENOSPC } else { EIO };
    match kind {
        READ => return export.read(offset, bytes).await.map_err(failed),
        WRITE => export.write(offset, data).await.map_err(failed)?,
        TRIM => export.trim(offset, bytes).await.map_err(failed)?,
        WRITE_ZEROES => {
            let mut at = offset;
            while at < end {
                let step = ZERO_BYTES.min(end - at);
                export.write(at, vec![0; step as usize].into()).await.map_err(failed)?;
                at += step;
            }
        }
        FLUSH => export.flush().await.map_err(failed)?,
        _ => return Err(EINVAL),
    }
    if flags & FUA != 0 && matches!(kind, WRITE | WRITE_ZEROES | TRIM) {
        export.flush().await.map_err(failed)?;
    }
    Ok(Bytes::new())
}
