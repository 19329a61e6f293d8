//! The catalog of an array: a list of volumes, as a value of the engine.

use bytes::Bytes;
use engine::{Change, Engine, KeyValue, Op, call};
use pod::Side;
use pods::{Offers, PodConfig, PodObjects, PodRegister};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{StreamId, VolumeId};

const KEY: &[u8] = b"simulation/objects";

/// The volumes of the pod, with their blocks.
pub(crate) type List = BTreeMap<VolumeId, u64>;

/// The catalog of an array.
pub(crate) struct Objects {
    pub(crate) engine: Arc<Engine>,
    pub(crate) register: Option<PodRegister>,
    pub(crate) side: Side,
}

fn parse(image: &[u8]) -> List {
    let (pairs, _) = image.as_chunks::<16>();
    let numbers = pairs.iter().map(|pair| {
        let (volume, blocks) = pair.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        (VolumeId(number(volume)), number(blocks))
    });
    numbers.collect()
}

fn encode(list: &List) -> Vec<u8> {
    list.iter().flat_map(|(volume, blocks)| [volume.0, *blocks]).flat_map(u64::to_le_bytes).collect()
}

impl Objects {
    fn list(&self) -> List {
        parse(&self.engine.get(KEY).unwrap_or_default())
    }

    fn put(list: &List) -> Change {
        Change::Put { key: KEY.to_vec(), value: encode(list) }
    }

    fn change(&self, changes: Vec<Change>) -> Result<(), String> {
        call(&*self.engine, Op::Change(changes)).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Makes the volumes of a pod that is on this array alone.
    pub(crate) fn create(&self, list: &List) -> Result<(), String> {
        let create = list.iter().map(|(volume, blocks)| Change::CreateVolume { volume: *volume, blocks: *blocks });
        self.change(create.chain([Self::put(list)]).collect())
    }
}

impl PodObjects for Objects {
    fn resync_limit(&self, _: StreamId) -> Option<u64> {
        None
    }
    fn image(&self, _: StreamId) -> Option<Bytes> {
        Some(encode(&self.list()).into())
    }

    fn volume_changes(
        &self,
        _: StreamId,
        image: &[u8],
        held: &[(VolumeId, u64)],
        stale: &[VolumeId],
    ) -> Result<Vec<Change>, String> {
        let (wanted, held) = (parse(image), held.iter().copied().collect::<List>());
        let gone = held.keys().filter(|volume| !wanted.contains_key(volume) || stale.contains(volume));
        let mut changes: Vec<_> = gone.map(|volume| Change::DeleteVolume { volume: *volume }).collect();
        for (volume, blocks) in wanted {
            match held.get(&volume).filter(|_| !stale.contains(&volume)) {
                Some(held) if *held == blocks => {}
                Some(_) => changes.push(Change::ResizeVolume { volume, blocks }),
                None => changes.push(Change::CreateVolume { volume, blocks }),
            }
        }
        Ok(changes)
    }

    fn apply(&self, _: StreamId, image: &[u8]) -> Result<(), String> {
        self.change(vec![Self::put(&parse(image))])
    }

    fn drop_pod(&self, _: StreamId) -> Result<(), String> {
        let delete = self.list().into_keys().map(|volume| Change::DeleteVolume { volume });
        self.change(delete.chain([Change::Remove { key: KEY.to_vec() }]).collect())
    }

    fn end_stretch(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }

    fn verified(&self, _: StreamId) -> Vec<(VolumeId, bool)> {
        self.list().into_keys().map(|volume| (volume, false)).collect()
    }

    fn take_verify_snapshot(&self, _: StreamId, _: VolumeId) -> Result<Option<VolumeId>, String> {
        Ok(None)
    }

    fn drop_verify_snapshots(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }
}

impl Offers for Objects {
    fn adopt(&self, stream: StreamId, array: &str, offer: &[u8]) -> Result<PodConfig, String> {
        self.create(&parse(offer))?;
        let (array, register) = (array.to_owned(), self.register.clone());
        Ok(PodConfig { stream, array, side: self.side, is_origin: false, register })
    }

    fn offer(&self, stream: StreamId) -> Option<Bytes> {
        self.image(stream)
    }

    fn described(&self, _: StreamId, _: &[u8]) {}

    fn refused(&self, _: StreamId, _: &str) {}

    fn asked(&self, _: &str, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}
