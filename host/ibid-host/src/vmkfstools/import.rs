//! `vmkfstools --import`: creates disks from files of this system.

use crate::failure::Failure;
use crate::vmfs::{Meter, Volumes, failed};
use datastore::Datastore;
use platform::LocalFile;
use std::path::Path;
use virtual_disk::{DiskFormat, SparseImage, VirtualDisk};

/// Bytes that an import reads at a time; the smallest disk.
const IMPORT_BYTES: u64 = 1 << 20;
/// The beginning of a descriptor of a disk in several files.
const DESCRIPTOR: &[u8] = b"# Disk DescriptorFile";

/// The content of a new disk.
enum Image<'a> {
    Raw(&'a LocalFile, u64),
    Sparse(SparseImage<'a>),
}

impl<'a> Image<'a> {
    async fn open(name: &str, file: &'a LocalFile) -> Result<Self, Failure> {
        if let Some(sparse) = SparseImage::open(name, file).await.map_err(failed(name))? {
            return Ok(Self::Sparse(sparse));
        }
        let local = |error| Failure::File { path: name.to_owned(), error };
        let length = file.size().map_err(local)?;
        let start = length.min(DESCRIPTOR.len() as u64) as usize;
        if file.read_at(0, start).map_err(local)? == DESCRIPTOR {
            return Err(Failure::usage(
                format!("{name} is a descriptor: the disk is in other files"),
                "put all files on a datastore with `vmfs put`, and copy the disk with `vmkfstools -i`",
            ));
        }
        Ok(Self::Raw(file, length))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Raw(_, length) => *length,
            Self::Sparse(image) => image.bytes(),
        }
    }

    fn read(&self, name: &str, offset: u64, bytes: u64) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Raw(file, _) => {
                file.read_at(offset, bytes as usize).map_err(|error| Failure::File { path: name.to_owned(), error })
            }
            Self::Sparse(image) => image.read(offset, bytes).map_err(failed(name)),
        }
    }
}

/// Creates a disk from a raw image or a hosted sparse file. Parts of zeros are not written.
pub(super) async fn import(
    volumes: &Volumes,
    source: &Path,
    format: DiskFormat,
    (datastore, path): (&Datastore, &str),
) -> Result<(), Failure> {
    let name = source.display().to_string();
    let file = LocalFile::open(source).map_err(|error| Failure::File { path: name.clone(), error })?;
    let image = Image::open(&name, &file).await?;
    let length = image.bytes();
    let size = length.next_multiple_of(512).max(IMPORT_BYTES);
    let settings = volumes.settings(datastore);
    let made = VirtualDisk::create(datastore, path, size, format, settings, &|_| ()).await;
    let (disk, _) = made.map_err(failed("Failed to create virtual disk"))?;
    let mut files = disk.files();
    files.push(path.to_owned());
    for file in &files {
        datastore.remove_at_unmount(file).await.map_err(failed(file))?;
    }
    let meter = Meter::new("Import", size);
    for at in (0..length).step_by(IMPORT_BYTES as usize) {
        let bytes = IMPORT_BYTES.min(length - at);
        let mut data = image.read(&name, at, bytes)?;
        data.resize(data.len().next_multiple_of(512), 0);
        if data.iter().any(|byte| *byte != 0) {
            disk.write(at, data.into()).await.map_err(failed(path))?;
        }
        meter.advance(bytes);
    }
    disk.close().await.map_err(failed(path))?;
    files.iter().for_each(|file| datastore.keep(file));
    meter.end();
    Ok(())
}
