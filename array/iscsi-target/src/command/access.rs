//! Volumes that two arrays serve: port groups, access states, and the commands that each state
//! allows (SPC-4 5.15).

use crate::command::context::CommandContext;
use crate::pod_ports::{PodPortStates, PortState};
use catalog::PathPreference;
use scsi::cdb::Command;
use scsi::port_groups::{AccessState, PortGroup, StateCause};
use scsi::{Asc, Sense, SenseKey, asc};
use std::cmp::Ordering;

/// RESERVE(6) and RESERVE(10), which end with their session. Two arrays share persistent
/// reservations only.
pub(crate) const UNSHARED_COMMANDS: [u8; 2] = [0x16, 0x56];
/// IMPLICIT TRANSITION TIME in seconds: the arrays agree within seconds, or after a host has waited
/// for its command (5 s). Linux waits so long for a path in transition before it uses another one.
const TRANSITION_SECONDS: u8 = 10;

/// Returns the sense data of a state that lets the ports of this array serve no data.
pub(crate) fn not_accessible(state: PortState) -> Option<Sense> {
    let asc = match state {
        PortState::Active => return None,
        PortState::Transitioning => asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION,
        PortState::Unavailable => asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE,
    };
    Some(Sense::new(SenseKey::NotReady, asc))
}

/// Returns true if the code says that this array does not serve the volume now, and perhaps the
/// other array does.
pub(crate) fn is_not_accessible(asc: Asc) -> bool {
    matches!(
        asc,
        asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION
            | asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE
    )
}

/// Returns true for LOGICAL UNIT NOT SUPPORTED, for which hosts give a volume up.
pub(crate) fn is_not_supported(sense: &Sense) -> bool {
    sense.is(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED)
}

/// Checks that a volume which two arrays serve allows a command now.
///
/// In transition, commands that access the medium go to the engine, which holds them for some
/// seconds: most transitions end in time.
pub(crate) fn check_access(ports: &PodPortStates, command: &Command) -> Result<(), Sense> {
    let is_refused = match ports.own {
        PortState::Active => false,
        PortState::Transitioning => matches!(command, Command::TestUnitReady),
        PortState::Unavailable => !is_served_while_unavailable(command),
    };
    if is_refused && let Some(sense) = not_accessible(ports.own) {
        return Err(sense);
    }
    match command {
        Command::Reserve { .. } => Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
        _ => Ok(()),
    }
}

/// Returns true for the commands that are executed in the state unavailable: those of SPC-4
/// 5.15.2.4.5, and others that only describe the logical unit, so that a host can open the path.
fn is_served_while_unavailable(command: &Command) -> bool {
    matches!(
        command,
        Command::Inquiry { .. }
            | Command::ReportLuns { .. }
            | Command::RequestSense { .. }
            | Command::ReportTargetPortGroups { .. }
            | Command::SetTargetPortGroups { .. }
            | Command::ReadCapacity10
            | Command::ReadCapacity16 { .. }
            | Command::ModeSense(_)
            | Command::LogSense(_)
            | Command::ReportOpcodes(_)
            | Command::ReportTaskManagement { .. }
            | Command::ReceiveCopyResults { .. }
    )
}

/// Returns the target port groups in ascending order of their numbers, so that two arrays list them
/// in the same order. A volume of this array alone has one group, which is active/optimized.
pub(crate) fn port_groups(
    context: &CommandContext<'_>,
    preference: PathPreference,
    ports: Option<&PodPortStates>,
) -> Vec<PortGroup> {
    let (is_own_distant, is_peer_distant) = (preference == PathPreference::Peer, preference == PathPreference::Own);
    let own = PortGroup {
        id: context.port.group,
        state: ports.map_or(AccessState::ActiveOptimized, |ports| access_state(ports.own, is_own_distant)),
        preferred: false,
        supported: ports.map_or(PortGroup::ALL_STATES, |_| PortGroup::ACTIVE_OR_NOT),
        cause: ports.map_or(StateCause::NotReported, |_| StateCause::ByArray),
        ports: context.portals.relative_ports(),
    };
    let Some(ports) = ports else { return vec![own] };
    let (id, relative) = context.portals.group_of(ports.peer_number, ports.peer_ports);
    let peer = PortGroup { id, state: access_state(ports.peer, is_peer_distant), ports: relative, ..own.clone() };
    match own.id.cmp(&peer.id) {
        Ordering::Less => vec![own, peer],
        Ordering::Greater => vec![peer, own],
        // Two groups of one number would be a contradiction.
        Ordering::Equal => vec![own],
    }
}

/// Returns IMPLICIT TRANSITION TIME: 0, no limit, for a volume whose states never change.
pub(crate) fn transition_seconds(ports: Option<&PodPortStates>) -> u8 {
    ports.map_or(0, |_| TRANSITION_SECONDS)
}

/// `is_distant` is true if the host prefers the ports of the other array alone.
fn access_state(state: PortState, is_distant: bool) -> AccessState {
    match state {
        PortState::Active if is_distant => AccessState::ActiveNonOptimized,
        PortState::Active => AccessState::ActiveOptimized,
        PortState::Transitioning => AccessState::Transitioning,
        PortState::Unavailable => AccessState::Unavailable,
    }
}
