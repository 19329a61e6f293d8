//! The HTML page: header, overview and footer. The sections of the experiments come from
//! [`section`](super::section).

use super::section;
use super::verdict::{escape, verdict};
use crate::display;
use crate::results::{CAPTURE_SCALE, ExperimentOutcome, Figure, LabReport, MeasureUnit, ReportNote};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");

/// Returns the report as one page without external references.
pub(super) fn render(report: &LabReport) -> String {
    let title = format!("Ibid lab: {}", report.subject.identity);
    let sections: String =
        report.outcomes.iter().enumerate().map(|(at, outcome)| section::render(at, outcome)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n{head}\n<main>\n{overview}\n{sections}</main>\n{foot}\n\
         <script type=\"application/json\" id=\"report\">{data}</script>\n\
         <script>\n/*\n{UPLOT_LICENCE}*/\n{UPLOT}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(&title),
        head = head(report),
        overview = overview(report),
        foot = foot(report),
        data = data(report),
    )
}

/// Returns the report as JSON, escaped so that it cannot close its script element.
fn data(report: &LabReport) -> String {
    serde_json::to_string(report).unwrap_or_default().replace("</", "<\\/").replace("<!--", "<\\u0021--")
}

fn head(report: &LabReport) -> String {
    let links: String = report
        .outcomes
        .iter()
        .map(|o| format!("<a href=\"#{0}\" title=\"{1}\">{0}</a>", escape(&o.id), escape(&o.title)))
        .collect();
    format!(
        "<header><div class=\"bar\"><a class=\"mark\" href=\"#top\">Ibid<b>.</b> <span>lab</span></a><nav>{links}</nav>\
         <button id=\"theme\" type=\"button\" title=\"switch between light and dark\" aria-label=\"switch between light and dark\">◐</button></div></header>"
    )
}

fn overview(report: &LabReport) -> String {
    let subject = &report.subject;
    let machine = &report.machine;
    let facts = [
        ("target", if subject.own { "a new array, started by the lab".to_owned() } else { subject.target.clone() }),
        ("portals", subject.portals.join(", ")),
        ("disks", subject.disks.join(", ")),
        ("machine", format!("{} processors, {}", machine.cpus, machine.processor)),
        ("memory, kernel", format!("{}, Linux {}", display::bytes(machine.memory), machine.kernel)),
        ("scale", if report.scale == CAPTURE_SCALE { String::new() } else { scale(report) }),
        ("lab", format!("{}, revision {}, schema {}", report.version, report.revision, report.schema)),
        (
            "host settings",
            report.settings.host.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", "),
        ),
        ("data", report.settings.data.clone()),
        (
            "seeds",
            report.settings.seeds.iter().map(|(name, seed)| format!("{name}: {seed}")).collect::<Vec<_>>().join("; "),
        ),
    ];
    let facts: String = facts
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(text)))
        .collect();
    let widest = report.outcomes.iter().filter_map(|o| ratio(o.findings.figures.first()?)).fold(10.0, f64::max);
    let rows: String = report.outcomes.iter().map(|outcome| row(outcome, widest)).collect();
    format!(
        "<section id=\"top\" class=\"overview\"><p class=\"kicker\">{kicker}</p>\
         <h1>{identity}</h1><p class=\"when\"><time data-ms=\"{begun}\">{date}</time>, {secs}</p>\
         <dl class=\"facts\">{facts}</dl><p class=\"repeat\">Repeat with <code>{command}</code></p>\
         <table class=\"index\"><thead><tr><th></th><th>experiment</th><th>measured</th><th class=\"scale\"></th>\
         <th>published</th><th></th></tr></thead><tbody>{rows}</tbody></table><p class=\"legend\">Bars: measured ratio, on a logarithmic scale from 1× to {widest}; the vertical mark is the published ratio.</p></section>\n",
        kicker =
            if report.scale == CAPTURE_SCALE { "Captures of hosts" } else { "Published VAAI experiments, repeated" },
        identity = escape(&subject.identity),
        command = escape(&report.settings.command),
        widest = display::with_unit(widest, MeasureUnit::Times),
        begun = report.begun,
        date = date(report.begun),
        secs = display::seconds(report.secs),
    )
}

fn scale(report: &LabReport) -> String {
    let sizes = if report.scale == "paper" { "the published sizes" } else { "sizes that fit a small machine" };
    let times = if report.repetitions == 1 {
        "one repetition".to_owned()
    } else {
        format!("{} repetitions", report.repetitions)
    };
    format!("{}: {sizes}; {times}", report.scale)
}

/// Returns the measured value if it is a ratio.
fn ratio(figure: &Figure) -> Option<f64> {
    (figure.unit == MeasureUnit::Times).then_some(figure.measured?)
}

fn row(outcome: &ExperimentOutcome, widest: f64) -> String {
    let figure = outcome.findings.figures.first();
    let unit = figure.map_or(MeasureUnit::Count, |f| f.unit);
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| display::with_unit(value, unit));
    let seen = figure.map_or_else(String::new, |f| {
        let measured = f.measured.map_or_else(|| "–".to_owned(), |v| display::estimate(v, f.interval, f.unit));
        format!("<b>{measured}</b> <span class=\"dim\">{}</span>", escape(&f.name))
    });
    let (class, verdict) = verdict(outcome);
    let is_extrapolated = outcome.findings.notes.iter().any(|note| matches!(note, ReportNote::Extrapolated(_)));
    let extrapolated = if is_extrapolated { " <span class=\"dim\">(partly extrapolated)</span>" } else { "" };
    format!(
        "<tr><td class=\"id\"><a href=\"#{id}\">{id}</a></td><td><a href=\"#{id}\">{title}</a></td><td>{seen}{extrapolated}</td>\
         <td class=\"scale\">{bar}</td><td>{published}</td><td><span class=\"chip {class}\" title=\"{goals}\">{verdict}</span></td></tr>",
        id = escape(&outcome.id),
        title = escape(&outcome.title),
        bar = figure.map_or_else(String::new, |f| bar(f, widest)),
        published = number(figure.and_then(|f| f.published)),
        goals = escape(&goals(outcome)),
    )
}

/// Lists the goals of an experiment and whether each was met.
fn goals(outcome: &ExperimentOutcome) -> String {
    let describe = |figure: &Figure| {
        let (goal, verdict) = (figure.goal?, figure.verdict?);
        let measured = display::estimate(figure.measured?, figure.interval, figure.unit);
        Some(format!("{}: {measured}, goal {}: {}", figure.name, display::goal(goal, figure.unit), verdict.words()))
    };
    outcome.findings.figures.iter().filter_map(describe).collect::<Vec<_>>().join("; ")
}

/// Draws a ratio on a logarithmic scale from 1 to `widest`, with a mark at the published ratio.
fn bar(figure: &Figure, widest: f64) -> String {
    let Some(measured) = ratio(figure) else { return String::new() };
    let place = |value: f64| (100.0 * value.max(1.0).ln() / widest.ln()).clamp(0.0, 100.0);
    let mark =
        figure.published.map_or_else(String::new, |value| format!("<u style=\"left:{:.1}%\"></u>", place(value)));
    format!("<i class=\"ratio\"><b style=\"width:{:.1}%\"></b>{mark}</i>", place(measured).max(0.7))
}

fn foot(report: &LabReport) -> String {
    format!(
        "<footer><p>Medians over the repetitions; whiskers show minimum and maximum. Figures have 95 % confidence intervals (bootstrap); \
         a goal is judged only if its interval is on one side of it and other programs used at most {limit} % of the processors. Curves over time \
         are of the median repetition. Settings \
         alternate within one run, so that other load on the machine affects all of them. Blue is without the \
         offload and orange with it, as in the published charts. All samples are in <a href=\"samples.csv\">samples.csv</a>, \
         the complete results in <a href=\"report.json\">report.json</a>.</p>\
         <p>ibid-host {} · plots by <a href=\"https://github.com/leeoniya/uPlot\">uPlot</a> (MIT), within this file</p></footer>",
        escape(&report.version),
        limit = crate::machine::FOREIGN_LIMIT
    )
}

/// Formats milliseconds since 1970 as `2026-11-22 00:07 UTC`, in the proleptic Gregorian calendar.
pub(super) fn date(millis: u64) -> String {
    let minutes = millis / 60_000;
    let (days, minute) = (minutes / 1440, minutes % 1440);
    // Counting from 0000-03-01 makes the leap day the last day of its year.
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}
