//! The steps of the system: what can happen in a state, and what follows.

use crate::array::{Array, Consent, Progress};
use crate::bug::Bug;
use crate::names::{BLOCKS, Block, Command, Owner, Register, Role, Rule, Side};
use crate::world::World;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A host sends a change: array, block, whether it compares, whether the source has credit.
    Issue(Side, Block, bool, bool),
    /// A host reads.
    Read(Side, Block),
    /// An array orders its oldest request; whether the source has credit.
    Sequence(Side, bool),
    /// An array's log becomes durable.
    Flush(Side),
    /// The oldest message from an array arrives.
    Deliver(Side),
    /// The peer renews an array's lease.
    Renew(Side),
    /// An array's lease ends.
    Expire(Side),
    /// Messages from an array are lost from now on.
    Cut(Side),
    /// The link works again.
    Heal,
    /// A session begins.
    Connect,
    /// A process dies.
    Crash(Side),
    /// A process dies, and the last flush is lost.
    Damage(Side),
    /// A process starts.
    Restart(Side),
    /// An array decides to continue alone.
    Ask(Side),
    /// The mediator carries out an array's compare-and-swap.
    Swap(Side),
    /// An asking array learns the register.
    Learn(Side),
    /// An array continues by its own right.
    OwnRight(Side),
    /// A loser reports that it has yielded.
    Yield(Side),
    /// The source sends a block.
    SendBlock(Side),
    /// The source declares the target whole.
    SendWhole(Side),
    /// The source logs SYNC.
    Join(Side),
    /// The source sends `GoSync`.
    GoSync(Side),
    /// The source could not send `GoSync`.
    AbandonJoin(Side),
    /// An array loses the mediator.
    LoseMediator(Side),
    /// An array reaches the mediator again.
    FindMediator(Side),
    /// An owner enters its epoch in the register.
    RegisterSelf(Side),
    /// The sequencer opens the register for a MEDIATOR epoch.
    OpenRegister(Side),
    /// The sequencer changes the tie rule.
    ChangeRule(Side, Rule),
    /// A forwarded command is answered with an error between two sessions.
    AnswerEarly(Side),
    /// A host gives up a forwarded command.
    FailOver(Side),
    /// An array wants to stop in an orderly way.
    Resign(Side),
    /// The sequencer orders the end of stretching.
    Leave(Side),
    /// The peer has left.
    FinishLeave(Side),
    /// An owner retires the register.
    Retire(Side),
    /// An administrator promotes an array.
    Force(Side),
    /// An administrator discards a diverged array's content.
    Discard(Side),
}

impl Step {
    /// Whether the step is a fault, or an administrator's or a host's doing. A system at rest has
    /// none of these.
    pub fn is_disturbance(&self, world: &World) -> bool {
        match self {
            Step::Issue(..) | Step::Read(..) | Step::Cut(_) | Step::Crash(_) | Step::Damage(_) | Step::Ask(_) => true,
            Step::LoseMediator(_) | Step::AnswerEarly(_) | Step::FailOver(_) | Step::Resign(_) => true,
            Step::Leave(_) | Step::Retire(_) | Step::Force(_) => true,
            Step::ChangeRule(_, rule) => *rule != Rule::Mediator,
            Step::AbandonJoin(side) => world.arrays[*side].is_attached,
            _ => false,
        }
    }

    /// Whether the step needs the mediator.
    pub fn needs_mediator(&self) -> bool {
        matches!(
            self,
            Step::FindMediator(_)
                | Step::Swap(_)
                | Step::Learn(_)
                | Step::RegisterSelf(_)
                | Step::OpenRegister(_)
                | Step::Retire(_)
                | Step::ChangeRule(_, Rule::Mediator)
        )
    }
}

/// Returns every step that can happen.
pub fn enabled(world: &World) -> Vec<Step> {
    let mut steps = Vec::with_capacity(24);
    for side in Side::BOTH {
        if !world.queues[side].is_empty() && world.arrays[side.other()].is_up {
            steps.push(Step::Deliver(side));
        }
        if world.arrays[side].is_up {
            host_steps(world, side, &mut steps);
            process_steps(world, side, &mut steps);
            tie_steps(world, side, &mut steps);
            resync_steps(world, side, &mut steps);
            rule_steps(world, side, &mut steps);
            administration_steps(world, side, &mut steps);
        } else {
            steps.push(Step::Restart(side));
            if world.spent.failovers < world.setup.limits.failovers && !world.arrays[side].orphans.is_empty() {
                steps.push(Step::FailOver(side));
            }
        }
    }
    if !world.is_link_whole() {
        steps.push(Step::Heal);
    }
    if can_connect(world) {
        steps.push(Step::Connect);
    }
    steps
}

/// A session can begin if both processes run and their states are durable. It also begins again if
/// the last contact left both arrays without an agreement.
fn can_connect(world: &World) -> bool {
    let is_ready = |side: Side| {
        let array = &world.arrays[side];
        array.is_up && array.memory.is_same_state(&array.disk)
    };
    let is_idle = |side: Side| !world.arrays[side].is_attached && world.arrays[side].consent == Consent::None;
    let is_unused = world.is_link_quiet() && Side::BOTH.into_iter().all(is_idle);
    (!world.has_session || is_unused) && world.is_link_whole() && Side::BOTH.into_iter().all(is_ready)
}

/// Steps of hosts, and the order of their commands.
fn host_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits, spent) = (&world.arrays[side], &world.setup.limits, &world.spent);
    let serves = array.serves_changes();
    let orders = array.memory.role.is_owner() || array.memory.sequencer == side;
    let may_mark = array.is_source && spent.marks < limits.marks;
    for block in 0..BLOCKS as Block {
        let is_free = !world.is_locked(side, block);
        let learns = world.histories.get(usize::from(block)).is_some_and(|h| h.learns_from(array.memory.block(block)));
        if is_free && learns && world.serves_reads(side) {
            steps.push(Step::Read(side, block));
        }
        if is_free && serves && spent.commands < limits.commands && !(orders && array.holds_changes()) {
            steps.push(Step::Issue(side, block, false, true));
            if may_mark {
                steps.push(Step::Issue(side, block, false, false));
            }
            if block == 0 && (!orders || may_compare(array)) {
                steps.push(Step::Issue(side, block, true, true));
            }
        }
    }
    let may_order = |command: &Command| {
        let is_free = serves && !array.holds_changes() && !world.is_locked(side, command.block);
        is_free && orders && (!command.compares || may_compare(array))
    };
    let is_forwarded =
        |(command, progress): &&(Command, Progress)| *progress == Progress::Forwarded && may_order(command);
    let has_request = array.requests.first().is_some_and(may_order);
    let has_own = array.requests.is_empty() && array.memory.role.is_owner();
    if has_request || has_own && array.pending.iter().any(|p| is_forwarded(&p)) {
        steps.push(Step::Sequence(side, true));
        if may_mark {
            steps.push(Step::Sequence(side, false));
        }
    }
}

/// A comparison that fails is a read: in SYNC it needs the lease.
fn may_compare(array: &Array) -> bool {
    array.memory.role.is_owner() || array.has_lease
}

/// Steps of the process, its link and its lease.
fn process_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits, spent) = (&world.arrays[side], &world.setup.limits, &world.spent);
    if array.disk != array.memory {
        steps.push(Step::Flush(side));
    }
    let is_together = world.is_together();
    if is_together && !array.has_lease {
        steps.push(Step::Renew(side));
    }
    if !is_together && array.has_lease {
        steps.push(Step::Expire(side));
    }
    if spent.cuts < limits.cuts && world.directions[side] {
        steps.push(Step::Cut(side));
    }
    if spent.crashes < limits.crashes {
        steps.push(Step::Crash(side));
    }
    // An owner with a damaged log is refused; only a forced promotion helps.
    let can_be_damaged = |role: Role| matches!(role, Role::Sync | Role::Target | Role::Lost);
    let is_damageable = can_be_damaged(array.disk.role) && can_be_damaged(array.previous.role);
    if spent.damages < limits.damages && array.previous != array.disk && is_damageable {
        steps.push(Step::Damage(side));
    }
    if spent.outages < limits.outages && world.reaches_mediator[side] {
        steps.push(Step::LoseMediator(side));
    }
    if !world.reaches_mediator[side] {
        steps.push(Step::FindMediator(side));
    }
    let has_forwarded = array.pending.iter().any(|(_, progress)| *progress == Progress::Forwarded);
    let is_between_sessions = array.memory.role == Role::Sync && !world.has_session && !array.has_lease;
    if has_forwarded && is_between_sessions && spent.early_errors < limits.early_errors {
        steps.push(Step::AnswerEarly(side));
    }
    if (has_forwarded || !array.orphans.is_empty()) && spent.failovers < limits.failovers {
        steps.push(Step::FailOver(side));
    }
}

/// Steps that decide which array continues.
fn tie_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits) = (&world.arrays[side], &world.setup.limits);
    let is_durable_sync = array.memory.role == Role::Sync && array.memory.is_same_state(&array.disk);
    let has_number = array.memory.epoch + 4 < limits.epochs;
    if is_durable_sync && !array.is_asking && world.may_ask(side) && world.spent.asks < limits.asks && has_number {
        steps.push(Step::Ask(side));
    }
    if array.is_asking && world.reaches_mediator[side] {
        if world.may_swap(side) {
            steps.push(Step::Swap(side));
        }
        if world.is_decided(side) {
            steps.push(Step::Learn(side));
        }
    }
    if array.is_asking && world.has_own_right(side) {
        steps.push(Step::OwnRight(side));
    }
    let peer_waits = matches!(world.arrays[side.other()].consent, Consent::Wins(_));
    let is_unreported = array.memory.role == Role::Lost && array.consent == Consent::None;
    if is_unreported && peer_waits && world.has_session && array.disk == array.memory {
        steps.push(Step::Yield(side));
    }
    if array.memory.role == Role::Solo && array.is_durable_owner() && world.reaches_mediator[side] {
        let is_old = world.register.epoch < array.memory.epoch && world.register.owner != Owner::Retired;
        if is_old {
            steps.push(Step::RegisterSelf(side));
        }
    }
}

/// Steps that bring the peer into step.
fn resync_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits) = (&world.arrays[side], &world.setup.limits);
    let has_number = array.memory.epoch + 4 < limits.epochs;
    if array.memory.role == Role::Solo && array.is_source && world.has_session {
        let is_complete = array.memory.delta.is_empty();
        if !is_complete {
            steps.push(Step::SendBlock(side));
        }
        let uses_whole = limits.marks > 0 || limits.forces > 0;
        if uses_whole && !array.memory.is_whole && (is_complete || world.has(Bug::WholeEarly)) {
            steps.push(Step::SendWhole(side));
        }
        if is_complete && array.is_all_committed() && array.pending.is_empty() && has_number {
            steps.push(Step::Join(side));
        }
    }
    if array.is_joining {
        let is_durable = array.disk == array.memory || world.has(Bug::JoinEarly);
        if is_durable && array.is_attached && world.has_session {
            steps.push(Step::GoSync(side));
        }
        let may_return = array.is_attached || !world.has_session;
        if may_return && has_number {
            steps.push(Step::AbandonJoin(side));
        }
    }
}

/// Changes of the tie rule: one at a time, when everything is committed.
fn rule_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits) = (&world.arrays[side], &world.setup.limits);
    let is_settled = !array.holds_changes() && array.is_all_committed() || world.has(Bug::RuleOverlap);
    let has_number = array.memory.epoch + 5 < limits.epochs;
    if !is_settled || !has_number || !world.is_together() || array.memory.sequencer != side {
        return;
    }
    let both_reach = |reaches: bool| Side::BOTH.iter().all(|s| world.reaches_mediator[*s] == reaches);
    let may_change = world.spent.rule_changes < limits.rule_changes;
    match array.memory.rule.current {
        Rule::Only(preferred) => {
            if both_reach(true) {
                let next = Register { epoch: array.memory.epoch + 1, owner: Owner::Both };
                if world.register == next {
                    steps.push(Step::ChangeRule(side, Rule::Mediator));
                } else if world.register.epoch <= array.memory.epoch {
                    steps.push(Step::OpenRegister(side));
                }
            }
            if may_change {
                steps.push(Step::ChangeRule(side, Rule::Only(preferred.other())));
            }
        }
        Rule::Mediator if may_change && both_reach(false) => {
            steps.extend(Side::BOTH.map(|preferred| Step::ChangeRule(side, Rule::Only(preferred))));
        }
        Rule::Mediator => {}
    }
}

/// Steps of administrators and of orderly stops.
fn administration_steps(world: &World, side: Side, steps: &mut Vec<Step>) {
    let (array, limits, spent) = (&world.arrays[side], &world.setup.limits, &world.spent);
    let has_number = array.memory.epoch + 4 < limits.epochs;
    let is_together = world.is_together();
    let is_in_session = array.is_in_step() && world.has_session;
    if spent.resigns < limits.resigns && is_in_session && array.consent == Consent::None && has_number {
        steps.push(Step::Resign(side));
    }
    let may_leave = is_together && array.memory.sequencer == side && !array.holds_changes() && array.is_all_committed();
    if spent.leaves < limits.leaves && may_leave && has_number {
        steps.push(Step::Leave(side));
    }
    if world.has_peer_left(side) && !array.is_asking && has_number {
        steps.push(Step::FinishLeave(side));
    }
    let own = Register { epoch: array.memory.epoch, owner: Owner::One(side) };
    let is_registered = world.register == own && world.reaches_mediator[side];
    if limits.leaves > 0
        && array.memory.role == Role::Solo
        && array.is_durable_owner()
        && is_registered
        && !array.is_source
    {
        steps.push(Step::Retire(side));
    }
    if array.memory.role == Role::Diverged {
        steps.push(Step::Discard(side));
    }
    let is_promotable = match array.memory.role {
        Role::Sync => !array.is_in_step() || !world.arrays[side.other()].is_up,
        Role::Target => array.memory.is_whole,
        Role::Lost | Role::Diverged => true,
        Role::Solo | Role::Local | Role::Left => false,
    };
    let is_apart = !world.has_session || !world.arrays[side.other()].is_up;
    let is_lease_over = !world.arrays[side.other()].has_lease;
    if spent.forces < limits.forces && is_promotable && is_apart && is_lease_over && has_number {
        steps.push(Step::Force(side));
    }
}

/// Carries out a step.
pub fn apply(world: &mut World, step: Step) {
    match step {
        Step::Issue(side, block, compares, has_credit) => world.issue(side, block, compares, has_credit),
        Step::Read(side, block) => world.read(side, block),
        Step::Sequence(side, has_credit) => world.sequence(side, has_credit),
        Step::Flush(side) => world.flush(side),
        Step::Deliver(side) => world.deliver(side),
        Step::Renew(side) => world.arrays[side].has_lease = true,
        Step::Expire(side) => world.arrays[side].has_lease = false,
        Step::Cut(side) => world.cut(side),
        Step::Heal => world.heal(),
        Step::Connect => world.connect(),
        Step::Crash(side) => world.crash(side),
        Step::Damage(side) => world.damage(side),
        Step::Restart(side) => world.restart(side),
        Step::Ask(side) => world.ask(side),
        Step::Swap(side) => world.swap_register(side),
        Step::Learn(side) => world.learn(side),
        Step::OwnRight(side) => world.use_own_right(side),
        Step::Yield(side) => world.report_yielded(side),
        Step::SendBlock(side) => world.send_block(side),
        Step::SendWhole(side) => world.send_whole(side),
        Step::Join(side) => world.join(side),
        Step::GoSync(side) => world.send_go_sync(side),
        Step::AbandonJoin(side) => world.abandon_join(side),
        Step::LoseMediator(side) => world.lose_mediator(side),
        Step::FindMediator(side) => world.reaches_mediator[side] = true,
        Step::RegisterSelf(side) => world.register_self(side),
        Step::OpenRegister(side) => world.open_register(side),
        Step::ChangeRule(side, rule) => world.change_rule(side, rule),
        Step::AnswerEarly(side) => world.answer_early(side),
        Step::FailOver(side) => world.fail_over(side),
        Step::Resign(side) => world.resign(side),
        Step::Leave(side) => world.order_leave(side),
        Step::FinishLeave(side) => world.finish_leave(side),
        Step::Retire(side) => world.retire(side),
        Step::Force(side) => world.force(side),
        Step::Discard(side) => world.discard(side),
    }
}
