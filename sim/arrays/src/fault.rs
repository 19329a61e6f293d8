//! Faults of a history.

use crate::mediation::MediatorSite;
use crate::oracle::Oracle;
use crate::site::{Ending, Site};
use crate::totals::Totals;
use crate::wire::Wire;
use platform::clock;
use platform::simulation::{SiteClock, World, below, time};
use std::sync::Arc;
use std::time::Duration;

/// The parts that fail.
pub(crate) struct Parts {
    pub(crate) sites: [Arc<Site>; 2],
    pub(crate) wire: Arc<Wire>,
    pub(crate) mediator: Option<Arc<MediatorSite>>,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) clocks: [SiteClock; 2],
}

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A process ends, and starts again.
    End(usize, Ending),
    /// Both processes end.
    EndBoth(Ending, Ending),
    /// All that an array sends is held.
    CutFrom(usize),
    /// Both directions are held.
    Cut,
    /// The session ends.
    Break,
    /// The process of an array is stopped.
    Stop(usize),
    /// Writes and flushes of an array are slow.
    SlowDrive(usize),
    /// The mediator is out of reach of one array.
    MediatorAway(usize),
    /// It is out of reach of both.
    NoMediator,
    /// Its answers are late.
    LateMediator,
    /// The calendar of an array jumps.
    Calendar(usize),
    /// The link is cut, and an array ends.
    CutAndEnd(usize, Ending),
    /// An array ends while the other is being brought into step.
    EndSoon(usize, Ending),
}

fn ending() -> Ending {
    match below(5) {
        0..3 => Ending::PowerFailure,
        3 => Ending::Killed,
        _ => Ending::Orderly,
    }
}

fn draw() -> Fault {
    let site = below(2) as usize;
    match below(20) {
        0..4 => Fault::End(site, ending()),
        4 | 5 => Fault::EndBoth(ending(), ending()),
        6 => Fault::CutFrom(site),
        7 | 8 => Fault::Cut,
        9 => Fault::Break,
        10 | 11 => Fault::Stop(site),
        12 => Fault::SlowDrive(site),
        13 => Fault::MediatorAway(site),
        14 => Fault::NoMediator,
        15 => Fault::LateMediator,
        16 => Fault::Calendar(site),
        17 | 18 => Fault::CutAndEnd(site, ending()),
        _ => Fault::EndSoon(site, ending()),
    }
}

impl Parts {
    /// Makes some faults, one after the other; they may overlap.
    pub(crate) fn fail(&mut self) {
        for _ in 0..1 + below(4) {
            let fault = draw();
            self.oracle.note(|| format!("fault: {fault:?}"));
            Totals::count(&self.totals.faults);
            self.make(fault);
            clock::sleep(Duration::from_millis(below(if below(3) == 0 { 300 } else { 4000 })));
        }
    }

    fn lasts() -> Duration {
        time() + Duration::from_millis(50 + below(4000))
    }

    fn make(&mut self, fault: Fault) {
        let until = Self::lasts();
        match fault {
            Fault::End(site, ending) | Fault::EndSoon(site, ending) => {
                if matches!(fault, Fault::EndSoon(..)) {
                    self.end(1 - site, Ending::PowerFailure);
                    self.start(1 - site, Duration::from_millis(below(200)));
                    clock::sleep(Duration::from_millis(below(1500)));
                }
                self.end(site, ending);
                self.start(site, Duration::from_millis(below(3000)));
            }
            Fault::EndBoth(first, second) => {
                if below(2) == 0 {
                    // Much is not flushed then.
                    self.sites.iter().for_each(|site| site.medium.be_slow(until));
                    clock::sleep(Duration::from_millis(below(800)));
                }
                self.end(0, first);
                clock::sleep(Duration::from_millis(below(20)));
                self.end(1, second);
                self.sites.iter().for_each(|site| site.medium.be_slow(Duration::ZERO));
                let sites = if below(2) == 0 { [0, 1] } else { [1, 0] };
                self.start(sites[0], Duration::from_millis(below(1500)));
                // The first one may continue alone until then.
                self.start(sites[1], Duration::from_millis(if below(2) == 0 { below(1500) } else { below(8000) }));
            }
            Fault::CutFrom(site) => self.wire.cut(site, until),
            Fault::Cut => (0..2).for_each(|site| self.wire.cut(site, until)),
            Fault::Break => self.wire.break_session(),
            Fault::Stop(site) => World::current().into_iter().for_each(|world| world.stop_site(site, until)),
            Fault::SlowDrive(site) => self.sites[site].medium.be_slow(until),
            Fault::MediatorAway(site) => self.mediator.iter().for_each(|mediator| mediator.be_away(site, until)),
            Fault::NoMediator => {
                self.mediator.iter().for_each(|mediator| (0..2).for_each(|site| mediator.be_away(site, until)));
            }
            Fault::LateMediator => self.mediator.iter().for_each(|mediator| mediator.be_late(until)),
            Fault::Calendar(site) => {
                self.clocks[site].calendar_shift = below(2_000_000_000) as i64 - 1_000_000_000;
                World::current().into_iter().for_each(|world| world.set_clock(site, self.clocks[site]));
            }
            Fault::CutAndEnd(site, ending) => {
                (0..2).for_each(|from| self.wire.cut(from, until));
                clock::sleep(Duration::from_millis(below(3000)));
                self.end(site, ending);
                self.start(site, Duration::from_millis(below(3000)));
            }
        }
    }

    fn end(&self, site: usize, ending: Ending) {
        Totals::count(&self.totals.ends);
        // A machine that is stopped loses its power all the same.
        World::current().into_iter().for_each(|world| world.stop_site(site, Duration::ZERO));
        self.sites[site].end(ending);
    }

    fn start(&self, site: usize, after: Duration) {
        clock::sleep(after);
        self.sites[site].await_ends();
        self.sites[site].start();
        self.oracle.note(|| format!("array {site} starts again"));
    }

    /// Ends all faults. Both arrays run afterwards.
    pub(crate) fn end_faults(&self) {
        self.wire.heal();
        for site in 0..2 {
            World::current().into_iter().for_each(|world| world.stop_site(site, Duration::ZERO));
            self.sites[site].medium.be_slow(Duration::ZERO);
            self.mediator.iter().for_each(|mediator| mediator.be_away(site, Duration::ZERO));
        }
        self.mediator.iter().for_each(|mediator| mediator.be_late(Duration::ZERO));
    }
}
