//! The handshake: a client lists the exports and selects one.

use super::export::{Export, Exports, protocol};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// NBD_FLAG_FIXED_NEWSTYLE and NBD_FLAG_NO_ZEROES.
const HANDSHAKE_FLAGS: u16 = 0b11;
const NO_ZEROES: u32 = 0b10;
/// NBD_FLAG_HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN.
const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
/// Longest option data: a name of 4096 bytes and some information requests.
const MAX_OPTION_BYTES: u32 = 8192;
/// Options that a client may send before it selects an export.
const MAX_OPTIONS: usize = 64;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;

const REPLY_ACK: u32 = 1;
const REPLY_SERVER: u32 = 2;
const REPLY_INFO: u32 = 3;
const ERROR_UNSUPPORTED: u32 = 1 << 31 | 1;
const ERROR_INVALID: u32 = 1 << 31 | 3;
const ERROR_UNKNOWN: u32 = 1 << 31 | 6;

/// Block sizes: minimum, preferred, maximum payload.
const BLOCK_SIZES: [u32; 3] = [512, 4096, super::transmit::MAX_BYTES];

/// Performs the handshake. Returns the selected export; `None` if the client ends it.
pub(super) async fn negotiate<S>(stream: &mut S, exports: &Exports) -> io::Result<Option<Arc<dyn Export>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_u64(SERVER_MAGIC).await?;
    stream.write_u64(OPTION_MAGIC).await?;
    stream.write_u16(HANDSHAKE_FLAGS).await?;
    let zeroes = stream.read_u32().await? & NO_ZEROES == 0;
    for _ in 0..MAX_OPTIONS {
        if stream.read_u64().await? != OPTION_MAGIC {
            return Err(protocol("option magic"));
        }
        let (option, length) = (stream.read_u32().await?, stream.read_u32().await?);
        if length > MAX_OPTION_BYTES {
            return Err(protocol("option length"));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data).await?;
        match option {
            EXPORT_NAME => {
                let export = find(exports, &data).ok_or_else(|| protocol("export name"))?;
                stream.write_u64(export.bytes()).await?;
                stream.write_u16(TRANSMISSION_FLAGS).await?;
                if zeroes {
                    stream.write_all(&[0; 124]).await?;
                }
                return Ok(Some(export));
            }
            ABORT => {
                reply(stream, option, REPLY_ACK, &[]).await?;
                return Ok(None);
            }
            LIST => {
                for export in exports.iter() {
                    let name = export.name().as_bytes();
                    let entry = [&(name.len() as u32).to_be_bytes(), name].concat();
                    reply(stream, option, REPLY_SERVER, &entry).await?;
                }
                reply(stream, option, REPLY_ACK, &[]).await?;
            }
            INFO | GO => {
                let Some(name) = export_name(&data) else {
                    reply(stream, option, ERROR_INVALID, &[]).await?;
                    continue;
                };
                let Some(export) = find(exports, name) else {
                    reply(stream, option, ERROR_UNKNOWN, &[]).await?;
                    continue;
                };
                let (size, flags) = (export.bytes().to_be_bytes(), TRANSMISSION_FLAGS.to_be_bytes());
                reply(stream, option, REPLY_INFO, &[&[0, 0], &size[..], &flags[..]].concat()).await?;
                let sizes = BLOCK_SIZES.map(u32::to_be_bytes).concat();
                reply(stream, option, REPLY_INFO, &[&[0, 3], &sizes[..]].concat()).await?;
                reply(stream, option, REPLY_ACK, &[]).await?;
                if option == GO {
                    return Ok(Some(export));
                }
            }
            _ => reply(stream, option, ERROR_UNSUPPORTED, &[]).await?,
        }
    }
    Err(protocol("too many options"))
}

/// Returns the name in the data of INFO and GO: its length, and then the name.
fn export_name(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.get(..u32::from_be_bytes(*length) as usize)
}

fn find(exports: &Exports, name: &[u8]) -> Option<Arc<dyn Export>> {
    let found = exports.iter().find(|export| name.is_empty() || export.name().as_bytes() == name);
    found.map(Arc::clone)
}

async fn reply<S: AsyncWrite + Unpin>(stream: &mut S, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(20 + data.len());
    message.extend(REPLY_MAGIC.to_be_bytes());
    message.extend(option.to_be_bytes());
    message.extend(kind.to_be_bytes());
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    stream.write_all(&message).await
}
