//! The registers in files of a directory, one for each pod.

use crate::message::PodKey;
use crate::register::{Entry, Holder, MAX_REGISTERS};
use pinned_tls::{Fingerprint, IdentityNames};
use platform::files::{self, Access};
use platform::lock::{Lock, LockError};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use types::hex;

/// The certificate of a mediator.
pub const IDENTITY: IdentityNames =
    IdentityNames { certificate: "mediator.pem", key: "mediator.key", subject: "Ibid mediator" };
const INSTANCE_FILE: &str = "mediator.json";
const LOCK_FILE: &str = "lock";
const REGISTERS: &str = "registers";
const ARRAYS_FILE: &str = "arrays.json";
const ARRAYS_LOCK: &str = "arrays.lock";
/// Most arrays that a mediator serves.
const MAX_ARRAYS: usize = 256;
const MAX_FILE_BYTES: u64 = 64 << 10;
const VERSION: u32 = 1;

/// The directory of a mediator cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process uses the directory.
    #[error("the directory of the mediator cannot be used")]
    Lock(#[from] LockError),
    /// A file cannot be read or written.
    #[error("cannot read or write {0}: {1}")]
    File(PathBuf, io::Error),
    /// A file has invalid content.
    #[error("{0} is invalid: {1}")]
    Content(PathBuf, String),
}

/// A mediator that was made in a directory. Another one, in an empty directory, has another id.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceRecord {
    version: u32,
    instance: String,
    created_ms: u64,
}

/// Stored form of an entry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryRecord {
    version: u32,
    pod: String,
    arrays: [String; 2],
    epoch: u64,
    /// `both`, `retired`, or the certificate of one array.
    owner: String,
    changed_ms: u64,
    /// CRC-32C of the other fields.
    checksum: String,
}

impl EntryRecord {
    fn new(entry: &Entry) -> Self {
        let owner = match entry.owner {
            Holder::Both => "both".to_owned(),
            Holder::Retired => "retired".to_owned(),
            Holder::One(owner) => hex::encode(&owner),
        };
        let arrays = entry.arrays.map(|array| hex::encode(&array));
        let (pod, checksum) = (hex::encode(&entry.pod), String::new());
        let (epoch, changed_ms) = (entry.epoch, entry.changed_ms);
        let mut record = Self { version: VERSION, pod, arrays, epoch, owner, changed_ms, checksum };
        record.checksum = record.computed();
        record
    }

    /// Returns the checksum of the other fields.
    fn computed(&self) -> String {
        let Self { version, pod, arrays: [first, second], epoch, owner, changed_ms, .. } = self;
        let text = format!("{version} {pod} {first} {second} {epoch} {owner} {changed_ms}");
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes());
        format!("{checksum:08x}")
    }

    fn entry(&self) -> Result<Entry, &'static str> {
        if self.version != VERSION {
            return Err("its version is not known to this program");
        }
        if self.checksum != self.computed() {
            return Err("its checksum is wrong");
        }
        let pod: PodKey = bytes(&self.pod).ok_or("the pod")?;
        let array = |at: usize| bytes(&self.arrays[at]).ok_or("the arrays");
        let arrays: [Fingerprint; 2] = [array(0)?, array(1)?];
        let owner = match self.owner.as_str() {
            "both" => Holder::Both,
            "retired" => Holder::Retired,
            owner => Holder::One(bytes(owner).filter(|owner| arrays.contains(owner)).ok_or("the owner")?),
        };
        if arrays[0] >= arrays[1] {
            return Err("the arrays are not in order");
        }
        Ok(Entry { pod, arrays, epoch: self.epoch, owner, changed_ms: self.changed_ms })
    }
}

/// Returns the stored form of an entry.
pub(crate) fn encode_entry(entry: &Entry) -> Vec<u8> {
    serde_json::to_vec(&EntryRecord::new(entry)).unwrap_or_default()
}

/// Reads the stored form of an entry. `None` if it is damaged.
pub(crate) fn decode_entry(stored: &[u8]) -> Option<Entry> {
    serde_json::from_slice::<EntryRecord>(stored).ok()?.entry().ok()
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    hex::decode(text)?.try_into().ok()
}

/// Stored form of the arrays that may have registers.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArraysRecord {
    version: u32,
    arrays: Vec<String>,
}

/// The directory of a mediator.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Id of the mediator: made with the directory's first use.
    pub instance: [u8; 16],
    _lock: Option<Lock>,
}

impl Store {
    /// Opens the directory of a mediator for its only process. Makes a new mediator if there is
    /// none.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let file = |error| StoreError::File(directory.to_owned(), error);
        files::create_directory(&directory.join(REGISTERS)).map_err(file)?;
        let lock = Lock::take(&directory.join(LOCK_FILE))?;
        sync(directory)?;
        let instance = match read_instance(directory)? {
            Some(instance) => instance,
            None if files::names(&directory.join(REGISTERS)).map_err(file)?.is_empty() => create_instance(directory)?,
            None => {
                let path = directory.join(INSTANCE_FILE);
                return Err(StoreError::Content(path, "it is missing, but there are registers".to_owned()));
            }
        };
        Ok(Self { directory: directory.to_owned(), instance, _lock: Some(lock) })
    }

    /// Opens the directory of a mediator, which may run, for reading. `None` if there is none.
    pub fn inspect(directory: &Path) -> Result<Option<Self>, StoreError> {
        let instance = read_instance(directory)?;
        Ok(instance.map(|instance| Self { directory: directory.to_owned(), instance, _lock: None }))
    }

    /// Reads all registers.
    pub fn load(&self) -> Result<Vec<Entry>, StoreError> {
        let folder = self.directory.join(REGISTERS);
        let names = files::names(&folder).map_err(|error| StoreError::File(folder.clone(), error))?;
        let entries = names.iter().filter(|name| name.ends_with(".json")).map(|name| {
            let path = folder.join(name);
            let invalid = |reason: &str| StoreError::Content(path.clone(), reason.to_owned());
            let record: EntryRecord = read(&path)?.ok_or_else(|| invalid("it has gone"))?;
            let entry = record.entry().map_err(invalid)?;
            if file_of(&entry.pod) == *name { Ok(entry) } else { Err(invalid("it has another name than its pod")) }
        });
        let entries = entries.collect::<Result<Vec<_>, StoreError>>()?;
        match entries.len() > MAX_REGISTERS {
            true => Err(StoreError::Content(folder, format!("it has more than {MAX_REGISTERS} registers"))),
            false => Ok(entries),
        }
    }

    /// Returns the certificates of the arrays that may have registers.
    pub fn allowed(&self) -> Result<Vec<Fingerprint>, StoreError> {
        let path = self.directory.join(ARRAYS_FILE);
        let record = read::<ArraysRecord>(&path)?.unwrap_or(ArraysRecord { version: VERSION, arrays: Vec::new() });
        let arrays: Option<Vec<Fingerprint>> = record.arrays.iter().map(|array| bytes(array)).collect();
        let arrays = arrays.filter(|arrays| record.version == VERSION && arrays.len() <= MAX_ARRAYS);
        arrays.ok_or_else(|| StoreError::Content(path, "arrays or version".to_owned()))
    }

    /// Allows an array to have registers, durably. The mediator may run. Returns false if it may
    /// already.
    pub fn allow(&self, array: Fingerprint) -> Result<bool, StoreError> {
        // Two commands at the same time would lose one of the arrays.
        let _lock = Lock::take(&self.directory.join(ARRAYS_LOCK))?;
        let path = self.directory.join(ARRAYS_FILE);
        let mut arrays = self.allowed()?;
        if arrays.contains(&array) {
            return Ok(false);
        }
        if arrays.len() >= MAX_ARRAYS {
            return Err(StoreError::Content(path, format!("a mediator serves at most {MAX_ARRAYS} arrays")));
        }
        arrays.push(array);
        let arrays = arrays.iter().map(|array| hex::encode(array)).collect();
        write(&path, &ArraysRecord { version: VERSION, arrays }).map(|()| true)
    }

    /// Returns true if the mediator has a certificate.
    pub(crate) fn has_certificate(&self) -> Result<bool, StoreError> {
        let path = self.directory.join(IDENTITY.certificate);
        files::exists(&path).map_err(|error| StoreError::File(path, error))
    }

    /// Stores a register, durably. After an error, the stored content is unknown: the old one or
    /// the new one. Blocks.
    pub(crate) fn save(&self, entry: &Entry) -> Result<(), StoreError> {
        let path = self.directory.join(REGISTERS).join(file_of(&entry.pod));
        write(&path, &EntryRecord::new(entry))
    }
}

/// Puts everything on stable storage. A process before may have ended between a rename and its
/// sync; its content must not be answered from the memory of the system.
fn sync(directory: &Path) -> Result<(), StoreError> {
    let put = |path: &Path| files::sync(path).map_err(|error| StoreError::File(path.to_owned(), error));
    let folder = directory.join(REGISTERS);
    let names = files::names(&folder).map_err(|error| StoreError::File(folder.clone(), error))?;
    names.iter().try_for_each(|name| put(&folder.join(name)))?;
    put(&folder)?;
    put(directory)?;
    let directory = directory.canonicalize().map_err(|error| StoreError::File(directory.to_owned(), error))?;
    match directory.parent().map(files::sync) {
        // One that this user may not read was there before.
        Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => Err(StoreError::File(directory, error)),
        _ => Ok(()),
    }
}

fn file_of(pod: &PodKey) -> String {
    format!("{}.json", hex::encode(pod))
}

fn read_instance(directory: &Path) -> Result<Option<[u8; 16]>, StoreError> {
    let path = directory.join(INSTANCE_FILE);
    let Some(record) = read::<InstanceRecord>(&path)? else { return Ok(None) };
    let instance = bytes(&record.instance).filter(|_| record.version == VERSION);
    let invalid = || StoreError::Content(path, "instance or version".to_owned());
    instance.map(Some).ok_or_else(invalid)
}

fn create_instance(directory: &Path) -> Result<[u8; 16], StoreError> {
    let path = directory.join(INSTANCE_FILE);
    let instance: [u8; 16] = platform::random::bytes().map_err(|error| StoreError::File(path.clone(), error))?;
    let created_ms = platform::clock::unix_millis();
    write(&path, &InstanceRecord { version: VERSION, instance: hex::encode(&instance), created_ms })?;
    Ok(instance)
}

fn read<T: for<'d> Deserialize<'d>>(path: &Path) -> Result<Option<T>, StoreError> {
    let text = files::read_text(path, MAX_FILE_BYTES).map_err(|error| StoreError::File(path.to_owned(), error))?;
    let parse = |text: String| serde_json::from_str(&text);
    let content = |error: serde_json::Error| StoreError::Content(path.to_owned(), error.to_string());
    text.map(parse).transpose().map_err(content)
}

fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), StoreError> {
    let file = |error| StoreError::File(path.to_owned(), error);
    let text = serde_json::to_string_pretty(record).map_err(|error| file(error.into()))?;
    files::replace(path, text.as_bytes(), Access::Owner).map_err(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    fn entry(number: u8, owner: Holder) -> Entry {
        Entry { pod: [number; 16], arrays: [[1; 32], [2; 32]], epoch: 5, owner, changed_ms: 7 }
    }

    #[test]
    fn registers_survive_a_restart() {
        let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
        assert!(Store::inspect(directory.path()).unwrap().is_none());
        let store = Store::open(directory.path()).unwrap();
        let owners = [Holder::Both, Holder::One([2; 32]), Holder::Retired];
        let entries: Vec<Entry> = (1..).zip(owners).map(|(number, owner)| entry(number, owner)).collect();
        entries.iter().for_each(|entry| store.save(entry).unwrap());
        assert!(matches!(Store::open(directory.path()), Err(StoreError::Lock(LockError::Held(_)))));
        assert_eq!(Store::inspect(directory.path()).unwrap().unwrap().load().unwrap(), entries);
        let instance = store.instance;
        drop(store);
        let again = Store::open(directory.path()).unwrap();
        assert_eq!((again.instance, again.load().unwrap()), (instance, entries));
    }

    #[test]
    fn allowed_arrays_are_stored() {
        let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(store.allowed().unwrap(), Vec::<Fingerprint>::new());
        let beside = Store::inspect(directory.path()).unwrap().unwrap();
        assert_eq!((beside.allow([1; 32]).unwrap(), beside.allow([1; 32]).unwrap()), (true, false));
        assert_eq!(store.allowed().unwrap(), [[1; 32]]);
        (2..=255).for_each(|number| assert!(store.allow([number; 32]).unwrap()));
        assert!(store.allow([0; 32]).unwrap());
        let mut more = [9; 32];
        more[0] = 1;
        assert!(store.allow(more).unwrap_err().to_string().contains("at most 256 arrays"));
    }

    #[test]
    fn damaged_files_are_refused() {
        let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
        let store = Store::open(directory.path()).unwrap();
        store.save(&entry(1, Holder::Both)).unwrap();
        let path = directory.path().join(REGISTERS).join(file_of(&[1; 16]));
        let text = files::read_text(&path, MAX_FILE_BYTES).unwrap().unwrap();
        let refused = |text: &str| {
            files::replace(&path, text.as_bytes(), Access::Owner).unwrap();
            store.load().unwrap_err().to_string()
        };
        assert!(refused(&text.replace("\"epoch\": 5", "\"epoch\": 7")).contains("checksum is wrong"));
        let foreign = EntryRecord::new(&entry(1, Holder::One([3; 32])));
        assert!(refused(&serde_json::to_string(&foreign).unwrap()).contains("the owner"));
        assert!(refused(&text.replace("\"version\": 1", "\"version\": 2")).contains("version is not known"));
        let moved = EntryRecord::new(&entry(4, Holder::Both));
        assert!(refused(&serde_json::to_string(&moved).unwrap()).contains("another name than its pod"));
        assert!(refused(&text[..text.len() / 2]).contains("is invalid"));
        drop(store);
        files::remove(&directory.path().join(INSTANCE_FILE)).unwrap();
        let error = Store::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("missing, but there are registers"), "a new instance would forget them: {error}");
    }
}
