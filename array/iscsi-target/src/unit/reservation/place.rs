//! The reservations of volumes that two arrays serve, as both have them stored.
//!
//! A hidden volume of the pod has a place for each volume. A change is a COMPARE AND WRITE.

use super::{ReservationError, UnitReservations, no_space_code, stored_alone};
use bytes::{Bytes, BytesMut};
use catalog::{MAX_SHARED_RESERVATIONS_BYTES, reservation_place};
use engine::{Op, OpError, Reply, Service, Sink, Tag};
use parking_lot::Mutex;
use scsi::persistent_reservation::{NexusId, OutAction, ReservationOutcome, ReservationType, Reservations};
use scsi::{Sense, asc};
use std::sync::Arc;
use tokio::sync::oneshot;
use types::{BlockRange, LBA_BYTES, ObjectId, VolumeId};

/// Attempts to store a change while others change the same reservations.
const MOST_ATTEMPTS: usize = 8;

/// A PERSISTENT RESERVE OUT for a volume that two arrays serve.
pub(crate) struct SharedReserveOut {
    pub(crate) action: OutAction,
    pub(crate) kind: Option<ReservationType>,
    /// The parameter list.
    pub(crate) list: Bytes,
    /// The relative identifiers of the target ports of both arrays, ascending.
    pub(crate) ports: Vec<u16>,
}

/// Completes one operation of the engine.
struct Once(Mutex<Option<oneshot::Sender<Result<Reply, OpError>>>>);

impl Sink for Once {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let sender = self.0.lock().take();
        // The receiver has ended with the array.
        if let Some(sender) = sender {
            drop(sender.send(result));
        }
    }
}

/// Submits an operation, and returns its result.
async fn run(service: &dyn Service, op: Op) -> Result<Reply, OpError> {
    let (sender, result) = oneshot::channel();
    let sink: Arc<dyn Sink> = Arc::new(Once(Mutex::new(Some(sender))));
    service.submit(op, 0, &sink);
    service.kick();
    result.await.unwrap_or(Err(OpError::Busy("the engine has ended")))
}

/// The place in the hidden volume that has the reservations of one volume.
#[derive(Clone, Copy)]
struct Place {
    volume: VolumeId,
    range: BlockRange,
}

impl Place {
    fn of(content: VolumeId) -> Option<Self> {
        reservation_place(content).map(|(volume, range)| Self { volume, range })
    }

    /// Reads the bytes of the place. The volume does not exist if the pod leaves its second array.
    async fn read(self, service: &dyn Service) -> Result<Bytes, OpError> {
        match run(service, Op::Read { volume: self.volume, range: self.range }).await? {
            Reply::Data(data) => Ok(data),
            _ => Err(OpError::Malformed("a read without data")),
        }
    }

    /// Replaces the reservations if they still are `old`.
    async fn replace(self, service: &dyn Service, old: &[u8], new: &[u8]) -> Result<(), OpError> {
        let used = old.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let (old, bytes) = (&old[..used], used.max(new.len()).next_multiple_of(LBA_BYTES as usize));
        let padded = |image: &[u8]| {
            let mut block = BytesMut::from(image);
            block.resize(bytes, 0);
            block.freeze()
        };
        let (compare, write) = (padded(old), padded(new));
        let swap = Op::CompareAndWrite { volume: self.volume, lba: self.range.start(), compare, write };
        run(service, swap).await.map(drop)
    }
}

/// Decodes a place. A damaged one has no reservations, as at an array alone.
fn decode(place: &[u8]) -> Reservations {
    Reservations::from_padded_image(place).unwrap_or_else(|error| {
        tracing::error!("reservations that both arrays have stored are discarded: {error}");
        Reservations::default()
    })
}

/// Applies a command of a nexus to the stored reservations, and stores the result.
pub(in crate::unit) async fn store(
    service: &dyn Service,
    content: VolumeId,
    nexus: &NexusId,
    request: &SharedReserveOut,
) -> Result<ReservationOutcome, ReservationError> {
    let unsupported = || ReservationError::Check(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE));
    let place = Place::of(content).ok_or_else(unsupported)?;
    for _ in 0..MOST_ATTEMPTS {
        let before = match place.read(service).await {
            Ok(before) => before,
            Err(OpError::NoSuchVolume(_)) => return Err(ReservationError::Busy),
            Err(error) => return Err(ReservationError::Engine(error)),
        };
        let old = decode(&before);
        let mut new = old.clone();
        let outcome = new.apply(nexus, request.action, request.kind, &request.list, &request.ports)?;
        let after = new.to_image();
        let no_space = || ReservationError::Check(Sense::illegal(no_space_code(request.action)));
        if after.len() > MAX_SHARED_RESERVATIONS_BYTES {
            return Err(no_space());
        }
        let stored = match old == new {
            true => Ok(()),
            false => place.replace(service, &before, &after).await,
        };
        match stored {
            Ok(()) => return Ok(outcome),
            Err(OpError::Miscompare { .. }) => {}
            Err(OpError::NoSpace) => return Err(no_space()),
            Err(OpError::NoSuchVolume(_)) => return Err(ReservationError::Busy),
            Err(error) => return Err(ReservationError::Engine(error)),
        }
    }
    Err(ReservationError::Busy)
}

/// Returns the image that stores the reservations of a place for one array alone; `None` without
/// registrations.
///
/// # Errors
///
/// The reason in words: the place is damaged.
pub fn image_of_place(place: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let found = Reservations::from_padded_image(place).map_err(|error| error.to_string())?;
    Ok((!found.registrations().is_empty()).then(|| found.to_image()))
}

impl UnitReservations {
    /// Reads the stored reservations, and checks commands against them from then on.
    pub(in crate::unit) async fn renew(
        &self,
        service: &dyn Service,
        volume: ObjectId,
        content: VolumeId,
    ) -> Result<(), OpError> {
        let place = Place::of(content);
        // One reading at a time: an older one must not replace a newer one.
        let _turn = self.reading.lock().await;
        let epoch = self.epoch();
        let stored = match place {
            Some(place) => self.stored(service, place).await,
            None => Ok(Reservations::default()),
        };
        let stored = stored.or_else(|error| match error {
            // The pod leaves its second array, and has stored them for this one.
            OpError::NoSuchVolume(_) => Ok(stored_alone(service, volume)),
            OpError::MediumError { .. } => {
                tracing::error!(%volume, "the stored reservations cannot be read: {error}");
                Ok(self.known().unwrap_or_default())
            }
            error => Err(error),
        });
        match self.install(stored?, epoch) {
            true => Ok(()),
            false => Err(OpError::Busy("the states of the target ports have changed")),
        }
    }

    /// Reads the stored reservations. The first time, it stores those that the unit had before two
    /// arrays served it.
    async fn stored(&self, service: &dyn Service, place: Place) -> Result<Reservations, OpError> {
        let found = place.read(service).await?;
        let Some(former) = self.former().filter(|_| found.iter().all(|byte| *byte == 0)) else {
            return Ok(decode(&found));
        };
        match place.replace(service, &[], &former.to_image()).await {
            // Miscompare: there are newer ones.
            Ok(()) | Err(OpError::Miscompare { .. }) => place.read(service).await.map(|found| decode(&found)),
            // They count here, until a change can be stored.
            Err(OpError::NoSpace) => Ok(former),
            Err(error) => Err(error),
        }
    }
}
