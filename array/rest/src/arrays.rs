//! `/arrays`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use crate::session::IDLE;
use api::{
    Array, ArrayPatch, ArraySpace, DIALECT_VERSION, DataAtRest, DriveWrites, Encryption, EradicationConfig,
    EradicationPatch, ErrorCode, Recompression, ScrubConfig,
};
use catalog::ArrayEdit;
use types::format_capacity;

/// Milliseconds that hosts should wait for a command.
const SCSI_TIMEOUT_MS: u64 = 60_000;

fn show(call: &Call) -> Array {
    let state = call.app.catalog.state();
    let array = state.array();
    let (capacity, space) = call.app.space.of_array(&state);
    let delay = array.settings.eradication_delay_ms;
    Array {
        id: array.id.clone(),
        name: array.name.clone(),
        as_of: platform::clock::unix_millis(),
        banner: String::new(),
        capacity,
        console_lock_enabled: false,
        encryption: encryption(call.app.drive.is_encrypted),
        eradication_config: EradicationConfig {
            disabled_delay: delay,
            enabled_delay: delay,
            eradication_delay: delay,
            manual_eradication: "all-enabled".to_owned(),
        },
        idle_timeout: IDLE.as_millis() as u64,
        ntp_servers: Vec::new(),
        ntp_symmetric_key: None,
        os: "Ibid".to_owned(),
        parity: 1,
        program_version: call.app.version.to_owned(),
        scsi_timeout: SCSI_TIMEOUT_MS,
        space,
        status: call.app.alerts.status().to_owned(),
        scrub_config: ScrubConfig {
            interval: array.settings.scrub.interval_ms,
            bytes_per_second: array.settings.scrub.bytes_per_second,
        },
        threshold_percent: array.settings.threshold_percent,
        drive_writes: drive_writes(call),
        recompression: recompression(call),
        time_zone: "UTC".to_owned(),
        version: DIALECT_VERSION.to_owned(),
    }
}

fn encryption(is_encrypted: bool) -> Encryption {
    let algorithm = if is_encrypted { "AES-256-XTS" } else { "" };
    Encryption {
        data_at_rest: DataAtRest { algorithm: algorithm.to_owned(), enabled: is_encrypted },
        module_version: String::new(),
    }
}

fn drive_writes(call: &Call) -> DriveWrites {
    let writes = call.app.engine.space().drive_writes;
    DriveWrites {
        host: writes.host,
        log: writes.log,
        data: writes.data,
        moved: writes.moved,
        leaves: writes.leaves,
        interior_pages: writes.interior_pages,
        slot_pages: writes.slot_pages,
        directory: writes.directory,
        patches: writes.patches,
        summaries: writes.summaries,
        manifest: writes.manifest,
        superblock: writes.superblock,
        total: writes.total(),
    }
}

fn recompression(call: &Call) -> Recompression {
    let recompression = call.app.engine.space().recompression;
    Recompression { before: recompression.before, after: recompression.after }
}

/// Answers `GET /arrays`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "space"]])?;
    // Checked but ignored: the answer always includes the space.
    call.query.flag("space")?;
    check_names(call, &call.app.catalog.array().name)?;
    call.app.space.count_if_quick();
    page(vec![show(call)], &call.query, &["name"])
}

/// Answers `PATCH /arrays`: changes name and settings, or the capacity.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    check_names(call, &call.app.catalog.array().name)?;
    let patch: ArrayPatch = call.body()?;
    let scrub = patch.scrub_config.clone().unwrap_or_default();
    let edit = ArrayEdit {
        name: patch.name.clone(),
        eradication_delay_ms: patch.eradication_config.as_ref().map(one_delay).transpose()?.flatten(),
        threshold_percent: patch.threshold_percent.map(|percent| Some(percent).filter(|percent| *percent != 0)),
        scrub_interval_ms: scrub.interval.map(|interval| Some(interval).filter(|interval| *interval != 0)),
        scrub_bytes_per_second: scrub.bytes_per_second,
    };
    match patch.capacity {
        Some(capacity) if edit == ArrayEdit::default() => grow(call, capacity)?,
        // A call has all of its effects or none, and growth cannot be undone.
        Some(_) => {
            let message = "'capacity' cannot be combined with other fields.";
            return Err(RestError::bad(ErrorCode::InvalidRequest, message));
        }
        None => call.change(|draft| draft.edit_array_settings(&edit))?,
    }
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "array changed");
    Answer::all(vec![show(call)])
}

/// Returns the delay of a change. The array has one delay, so its names must agree.
fn one_delay(config: &EradicationPatch) -> Result<Option<u64>, RestError> {
    let given = [config.eradication_delay, config.disabled_delay, config.enabled_delay];
    let mut delays = given.into_iter().flatten();
    let first = delays.next();
    if delays.any(|delay| Some(delay) != first) {
        let message = "The array has one eradication delay; the delays that are given must be equal.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    Ok(first)
}

fn grow(call: &Call, capacity: u64) -> Result<(), RestError> {
    let present = call.app.engine.space().size();
    if capacity <= present {
        let present = format_capacity(present);
        let message = format!("The array takes {present} of its drive already and cannot shrink.");
        return Err(RestError::bad(ErrorCode::CannotShrink, message));
    }
    (call.app.drive.growth)(capacity)
        .map_err(|reason| RestError::bad(ErrorCode::CannotGrow, format!("The array cannot grow: {reason}.")))?;
    call.record();
    Ok(())
}

pub(crate) fn check_names(call: &Call, name: &str) -> Result<(), RestError> {
    let names = call.query.list("names").unwrap_or_default();
    match names.iter().find(|asked| !asked.eq_ignore_ascii_case(name)) {
        Some(other) => Err(RestError::about(ErrorCode::ArrayNotFound, other, "Array does not exist.")),
        None => Ok(()),
    }
}

/// Answers `GET /arrays/space`. `refresh=true` counts the space first.
pub(crate) fn space_of_array(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "refresh"]])?;
    let state = call.app.catalog.state();
    let array = state.array();
    check_names(call, &array.name)?;
    if call.query.flag("refresh")? != Some(true) {
        call.app.space.count_if_quick();
    } else if !call.app.space.count() {
        return Err(RestError::Internal("Space accounting failed.".to_owned()));
    }
    let (capacity, space) = call.app.space.of_array(&state);
    let (id, name) = (array.id.clone(), array.name.clone());
    let time = platform::clock::unix_millis();
    let drive_writes = drive_writes(call);
    page(vec![ArraySpace { id, name, capacity, parity: 1, space, drive_writes, time }], &call.query, &["name"])
}
