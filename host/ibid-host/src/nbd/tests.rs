use super::*;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A disk in memory.
struct Memory {
    content: Mutex<Vec<u8>>,
    calls: Mutex<Vec<String>>,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Self { content: Mutex::new(vec![0; bytes]), calls: Mutex::default() }
    }
}

impl Export for Memory {
    fn name(&self) -> &str {
        "disk"
    }

    fn bytes(&self) -> u64 {
        self.content.lock().len() as u64
    }

    fn read(&self, offset: u64, bytes: u64) -> ExportFuture<'_, Bytes> {
        let range = offset as usize..(offset + bytes) as usize;
        Box::pin(async move { Ok(Bytes::copy_from_slice(&self.content.lock()[range])) })
    }

    fn write(&self, offset: u64, data: Bytes) -> ExportFuture<'_, ()> {
        self.content.lock()[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        Box::pin(async { Ok(()) })
    }

    fn trim(&self, offset: u64, bytes: u64) -> ExportFuture<'_, ()> {
        self.calls.lock().push(format!("trim {offset} {bytes}"));
        Box::pin(async { Ok(()) })
    }

    fn flush(&self) -> ExportFuture<'_, ()> {
        self.calls.lock().push("flush".to_owned());
        Box::pin(async { Ok(()) })
    }
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [&b"IHAVEOPT"[..], &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn request(flags: u16, kind: u16, cookie: u64, (offset, length): (u64, u32), data: &[u8]) -> Vec<u8> {
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
    [&head[..], &cookie.to_be_bytes(), &offset.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

/// Starts a server, and sends the client's flags. Returns the client's end of the connection.
async fn connect(memory: &Arc<Memory>) -> DuplexStream {
    let (mut client, mut server) = tokio::io::duplex(1 << 16);
    let export: Arc<dyn Export> = memory.clone();
    let exports: Exports = Arc::new(vec![export]);
    tokio::spawn(async move {
        if let Ok(Some(export)) = negotiate::negotiate(&mut server, &exports).await {
            let _ = transmit::transmit(server, export).await;
        }
    });
    let mut hello = [0; 18];
    client.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, *b"NBDMAGICIHAVEOPT\0\x03");
    client.write_u32(3).await.unwrap();
    client
}

/// Reads a reply to an option: its type and data.
async fn option_reply(client: &mut DuplexStream, option: u32) -> (u32, Vec<u8>) {
    assert_eq!(client.read_u64().await.unwrap(), 0x0003_e889_0455_65a9);
    assert_eq!(client.read_u32().await.unwrap(), option);
    let (kind, length) = (client.read_u32().await.unwrap(), client.read_u32().await.unwrap());
    let mut data = vec![0; length as usize];
    client.read_exact(&mut data).await.unwrap();
    (kind, data)
}

/// Reads a reply to a request: its error and cookie.
async fn reply(client: &mut DuplexStream) -> (u32, u64) {
    assert_eq!(client.read_u32().await.unwrap(), 0x6744_6698);
    (client.read_u32().await.unwrap(), client.read_u64().await.unwrap())
}

async fn select(client: &mut DuplexStream) {
    client.write_all(&option(7, &[0, 0, 0, 4, b'd', b'i', b's', b'k', 0, 0])).await.unwrap();
    let (kind, data) = option_reply(client, 7).await;
    assert_eq!((kind, &data[..10]), (3, &[0, 0, 0, 0, 0, 0, 0, 0, 64, 0][..]), "16 KiB");
    assert_eq!(option_reply(client, 7).await.1[..6], [0, 3, 0, 0, 2, 0], "sectors of 512 bytes");
    assert_eq!(option_reply(client, 7).await, (1, vec![]));
}

#[tokio::test]
async fn options_list_describe_and_refuse() {
    let memory = Arc::new(Memory::new(16 << 10));
    let mut client = connect(&memory).await;
    client.write_all(&option(3, &[])).await.unwrap();
    assert_eq!(option_reply(&mut client, 3).await, (2, b"\0\0\0\x04disk".to_vec()));
    assert_eq!(option_reply(&mut client, 3).await, (1, vec![]));
    // Structured replies and an unknown export are refused, and the client may continue.
    client.write_all(&option(8, &[])).await.unwrap();
    assert_eq!(option_reply(&mut client, 8).await.0, 1 << 31 | 1);
    client.write_all(&option(7, &[0, 0, 0, 1, b'x', 0, 0])).await.unwrap();
    assert_eq!(option_reply(&mut client, 7).await.0, 1 << 31 | 6);
    client.write_all(&option(6, &[0, 0, 9, 9, 0])).await.unwrap();
    assert_eq!(option_reply(&mut client, 6).await.0, 1 << 31 | 3);
    select(&mut client).await;
    // The old way to select an export.
    let mut client = connect(&memory).await;
    client.write_all(&option(1, b"")).await.unwrap();
    assert_eq!(client.read_u64().await.unwrap(), 16 << 10);
    assert_eq!(client.read_u16().await.unwrap(), 0b1_0110_1101);
    // Too long an option ends the connection.
    let mut client = connect(&memory).await;
    client.write_all(&option(3, &[])[..12]).await.unwrap();
    client.write_u32(1 << 20).await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn requests_read_write_trim_zero_and_flush() {
    let memory = Arc::new(Memory::new(16 << 10));
    let mut client = connect(&memory).await;
    select(&mut client).await;
    client.write_all(&request(1, 1, 7, (512, 1024), &[9; 1024])).await.unwrap();
    assert_eq!(reply(&mut client).await, (0, 7));
    assert_eq!(*memory.calls.lock(), ["flush"], "FUA");
    client.write_all(&request(0, 0, 8, (0, 2048), &[])).await.unwrap();
    assert_eq!(reply(&mut client).await, (0, 8));
    let mut data = vec![0; 2048];
    client.read_exact(&mut data).await.unwrap();
    assert_eq!(data, [&[0; 512][..], &[9; 1024], &[0; 512]].concat());
    client.write_all(&request(0, 6, 9, (1024, 512), &[])).await.unwrap();
    assert_eq!(reply(&mut client).await, (0, 9));
    assert_eq!(memory.content.lock()[1000..1030], [vec![9; 24], vec![0; 6]].concat());
    client.write_all(&request(0, 4, 10, (0, 8192), &[])).await.unwrap();
    assert_eq!(reply(&mut client).await, (0, 10));
    client.write_all(&request(0, 3, 11, (0, 0), &[])).await.unwrap();
    assert_eq!(reply(&mut client).await, (0, 11));
    assert_eq!(*memory.calls.lock(), ["flush", "trim 0 8192", "flush"]);
    // Outside the device, not whole sectors, an unknown command.
    for (kind, range, error) in [
        (0, (16 << 10, 512), 22),
        (6, (u64::MAX, 512), 22),
        (6, (16 << 10, 512), 28),
        (0, (1, 512), 22),
        (0, (0, 100), 22),
        (9, (0, 512), 22),
    ] {
        client.write_all(&request(0, kind, 12, range, &[])).await.unwrap();
        assert_eq!(reply(&mut client).await, (error, 12), "{kind} {range:?}");
    }
    client.write_all(&request(0, 2, 13, (0, 0), &[])).await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "disconnected");
}
