//! The published numbers as plots.

use crate::plot::{Axis, MeasureUnit, Plot, Point, Role, Series, Shape};

/// 17 min 6 s: 1 TB without WRITE SAME.
pub(crate) const TERABYTE_OFF_SECS: f64 = 1026.0;
/// 3 min 47 s: 1 TB with WRITE SAME (Purity 5.0).
pub(crate) const TERABYTE_ON_SECS: f64 = 227.0;
/// 1 min 10 s: 1 TB with WRITE SAME (Purity 5.1).
pub(crate) const TERABYTE_TUNED_SECS: f64 = 70.0;

/// 40 GB of zeros on two arrays: without WRITE SAME, with it, and with it on one array.
pub(crate) const PAIR_ZERO_SECS: [f64; 3] = [36.0, 16.0, 6.0];
/// Deployments: through the host, on one array, from one array into a pod (refused there, through
/// the host), and within a pod.
pub(crate) const PAIR_COPY_SECS: [f64; 4] = [23.5, 4.5, 82.0, 25.0];

/// Returns the published plots of one experiment.
pub(super) fn plots(id: &str) -> Vec<Plot> {
    match id {
        "L2" => vec![deploy()],
        "L3" => vec![simultaneous()],
        "L7" => vec![four_at_once()],
        "L8" => vec![terabyte()],
        "L9" => vec![overhead(), filling()],
        "L11" => vec![processor()],
        "L12" => vec![pair_zeroing(), pair_copies()],
        _ => Vec::new(),
    }
}

/// Creates a bar plot with one value per series and group.
fn bars(title: &str, y: Axis, places: &[&str], series: &[(&str, Role, &[f64])]) -> Plot {
    let points = |values: &[f64]| values.iter().enumerate().map(|(x, y)| Point::plain(x as f64, *y)).collect();
    Plot {
        title: title.to_owned(),
        shape: Shape::Bars,
        x: Axis::linear("", MeasureUnit::Count),
        y,
        places: places.iter().map(|place| (*place).to_owned()).collect(),
        series: series
            .iter()
            .map(|(name, role, values)| Series { name: (*name).to_owned(), role: *role, points: points(values) })
            .collect(),
        bands: Vec::new(),
    }
}

fn seconds() -> Axis {
    Axis::linear("duration", MeasureUnit::Seconds)
}

fn deploy() -> Plot {
    bars(
        "Deploy from template: 100 GB disk, 50 GB of data",
        seconds(),
        &["one virtual machine"],
        &[("XCOPY off (“over two minutes”)", Role::Without, &[120.0]), ("XCOPY on", Role::With, &[7.0])],
    )
}

fn simultaneous() -> Plot {
    bars(
        "16 deployments at once",
        seconds(),
        &["16 virtual machines"],
        &[("XCOPY off", Role::Without, &[270.0]), ("XCOPY on", Role::With, &[35.0])],
    )
}

fn four_at_once() -> Plot {
    bars(
        "Four 100 GB disks at once: time relative to one",
        Axis::linear("times longer than one", MeasureUnit::Times),
        &["four at once"],
        &[("WRITE SAME off", Role::Without, &[3.5]), ("WRITE SAME on", Role::With, &[1.6])],
    )
}

fn terabyte() -> Plot {
    bars(
        "A 1 TB eagerzeroedthick disk",
        seconds(),
        &["1 TB"],
        &[
            ("WRITE SAME off", Role::Without, &[TERABYTE_OFF_SECS]),
            ("on, Purity 5.0", Role::With, &[TERABYTE_ON_SECS]),
            ("on, Purity 5.1", Role::Nth(2), &[TERABYTE_TUNED_SECS]),
        ],
    )
}

fn overhead() -> Plot {
    bars(
        "First writes against eagerzeroedthick",
        Axis::linear("worse by", MeasureUnit::Percent),
        &["latency overhead", "IOPS loss"],
        &[("WRITE SAME off", Role::Without, &[30.0, 23.0]), ("WRITE SAME on", Role::With, &[20.0, 17.0])],
    )
}

fn filling() -> Plot {
    bars(
        "Filling a 20 GB thin disk at 32 outstanding",
        Axis::linear("latency", MeasureUnit::Milliseconds),
        &["Purity 5.0", "Purity 5.1"],
        &[
            ("while it fills", Role::Without, &[2.25, 1.6]),
            ("once it is full (published for 5.0 only)", Role::With, &[0.7]),
        ],
    )
}

fn pair_zeroing() -> Plot {
    let [off, both, one] = PAIR_ZERO_SECS;
    bars(
        "A 40 GB eagerzeroedthick disk",
        seconds(),
        &["on two arrays", "on one array"],
        &[("WRITE SAME off", Role::Without, &[off]), ("WRITE SAME on", Role::With, &[both, one])],
    )
}

fn pair_copies() -> Plot {
    let [off, one, into, within] = PAIR_COPY_SECS;
    bars(
        "Deploy from template at 4 ms",
        seconds(),
        &["on one array", "from one array into a pod (refused)", "within a pod"],
        &[("XCOPY off", Role::Without, &[off]), ("XCOPY on", Role::With, &[one, into, within])],
    )
}

fn processor() -> Plot {
    bars(
        "Host CPU that UNMAP adds",
        Axis::linear("of the host’s processors", MeasureUnit::Percent),
        &["200 blocks", "60 000 blocks"],
        &[("CPU added", Role::Nth(2), &[0.5, 2.5])],
    )
}
