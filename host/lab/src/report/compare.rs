//! Comparison of reports of several targets or releases: one table for the terminal and one page.

use super::verdict::escape;
use crate::display;
use crate::results::{ExperimentOutcome, Figure, LabReport, Verdict};
use std::fmt::Write;

const STYLE: &str = include_str!("../../assets/report.css");

/// One figure in all reports.
struct Row<'a> {
    id: &'a str,
    title: &'a str,
    name: &'a str,
    /// The figure of each report and its experiment, in their order.
    figures: Vec<Option<Measured<'a>>>,
}

/// A figure and its experiment.
type Measured<'a> = (&'a Figure, &'a ExperimentOutcome);

impl Row<'_> {
    /// Compares the intervals of the first report with those of the others. Too much load by other
    /// programs leaves the question open, as it does for goals.
    fn difference(&self) -> &'static str {
        if self.figures.iter().flatten().any(|(_, outcome)| outcome.load.is_noisy()) {
            return "cannot tell";
        }
        let interval = |figure: &Option<Measured<'_>>| figure.and_then(|(figure, _)| figure.interval);
        let Some(first) = self.figures.first().and_then(interval) else { return "cannot tell" };
        let others: Vec<_> = self.figures.iter().skip(1).map(interval).collect();
        let apart =
            |other: &Option<crate::stats::Interval>| other.is_some_and(|o| o.high < first.low || first.high < o.low);
        match others.iter().all(Option::is_some) {
            true if others.iter().all(apart) => "different",
            true if others.iter().any(apart) => "partly different",
            true => "no difference seen",
            false => "cannot tell",
        }
    }
}

fn rows(reports: &[(String, LabReport)]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for outcome in reports.iter().flat_map(|(_, report)| &report.outcomes) {
        for figure in &outcome.findings.figures {
            if rows.iter().any(|row| row.id == outcome.id && row.name == figure.name) {
                continue;
            }
            let find = |(_, report): &'_ (String, LabReport)| -> Option<usize> {
                report.outcomes.iter().position(|other| other.id == outcome.id)
            };
            let figures = reports.iter().map(|named| {
                let other = named.1.outcomes.get(find(named)?)?;
                Some((other.findings.figures.iter().find(|f| f.name == figure.name)?, other))
            });
            rows.push(Row { id: &outcome.id, title: &outcome.title, name: &figure.name, figures: figures.collect() });
        }
    }
    rows
}

/// Formats a figure with its interval and verdict, and marks fall-backs of the host.
fn cell(figure: Option<Measured<'_>>) -> String {
    let Some((figure, outcome)) = figure else { return "–".to_owned() };
    let Some(measured) = figure.measured else { return "–".to_owned() };
    let mut text = display::estimate(measured, figure.interval, figure.unit);
    if let Some(interval) = display::interval(figure.interval, figure.unit) {
        text += &format!(" ({interval})");
    }
    if outcome.verdict == Verdict::FallBack {
        text += ", without the offload";
    }
    figure.verdict.map_or(text.clone(), |verdict| format!("{text}, {}", verdict.words()))
}

/// Returns the comparison as lines of text. Each report has a name.
pub fn text(reports: &[(String, LabReport)]) -> String {
    let mut out = String::new();
    for row in rows(reports) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:>4} {}: {}", row.id, row.name, row.difference());
        for ((name, _), figure) in reports.iter().zip(&row.figures) {
            let _ = writeln!(out, "       {name}: {}", cell(*figure));
        }
    }
    out
}

/// Returns the comparison as one page without external references.
pub fn page(reports: &[(String, LabReport)]) -> String {
    let heads: String = reports.iter().map(|(name, _)| format!("<th>{}</th>", escape(name))).collect();
    let facts: String = reports
        .iter()
        .map(|(name, report)| {
            let load = report.outcomes.iter().map(|o| o.load.foreign).fold(0.0, f64::max);
            format!(
                "<div><dt>{}</dt><dd>{}; lab {}; {} scale, {} repetitions; {} processors; other programs up to {} %<br><code>{}</code></dd></div>",
                escape(name),
                escape(&report.subject.identity),
                escape(&report.version),
                escape(&report.scale),
                report.repetitions,
                report.machine.cpus,
                display::number(load.round()),
                escape(&report.settings.command)
            )
        })
        .collect();
    let mut body = String::new();
    let mut before = "";
    for row in rows(reports) {
        if row.id != before {
            let span = reports.len() + 2;
            let _ = write!(
                body,
                "<tr><th colspan=\"{span}\" class=\"group\"><span class=\"id\">{}</span> {}</th></tr>",
                escape(row.id),
                escape(row.title)
            );
            before = row.id;
        }
        let cells: String = row.figures.iter().map(|figure| format!("<td>{}</td>", escape(&cell(*figure)))).collect();
        let difference = row.difference();
        let class = if difference == "different" { "good" } else { "dull" };
        let _ = write!(
            body,
            "<tr><td>{}</td>{cells}<td><span class=\"chip {class}\">{difference}</span></td></tr>",
            escape(row.name)
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Ibid lab: comparison</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main><section class=\"overview\"><p class=\"kicker\">Comparison</p>\
         <h1>{} reports</h1><dl class=\"facts\">{facts}</dl><div class=\"wide\"><table class=\"numbers compared\"><thead><tr>\
         <th>figure</th>{heads}<th></th></tr></thead><tbody>{body}</tbody></table></div></section></main>\n\
         <footer><p>Median, and 95 % confidence interval. “different”: the intervals of the first and all other reports do not \
         overlap. “cannot tell”: an interval is missing, or other programs used too much of the processors.</p></footer>\n</body>\n</html>\n",
        reports.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    fn pair(factor: f64) -> Vec<(String, LabReport)> {
        let mut other = report();
        for figure in other.outcomes.iter_mut().flat_map(|o| &mut o.findings.figures) {
            figure.measured = figure.measured.map(|value| value * factor);
            let interval = figure.interval.as_mut().unwrap();
            (interval.low, interval.high) = (interval.low * factor, interval.high * factor);
        }
        vec![("ibid".to_owned(), report()), ("tgt <1>".to_owned(), other)]
    }

    #[test]
    fn disjoint_intervals_are_a_difference() {
        let words = |factor| rows(&pair(factor)).iter().map(Row::difference).collect::<Vec<_>>();
        assert!(words(2.0).iter().all(|word| *word == "different"));
        assert!(words(1.02).iter().all(|word| *word == "no difference seen"));
    }

    #[test]
    fn foreign_load_leaves_the_comparison_open() {
        let mut pair = pair(2.0);
        pair[1].1.outcomes.iter_mut().for_each(|outcome| outcome.load.foreign = 50.0);
        assert!(rows(&pair).iter().all(|row| row.difference() == "cannot tell"));
    }

    #[test]
    fn fallbacks_are_marked_in_the_comparison() {
        let mut pair = pair(2.0);
        pair[1].1.outcomes.iter_mut().for_each(|outcome| outcome.verdict = Verdict::FallBack);
        let text = text(&pair);
        assert!(text.contains("ibid: 41× (39× to 43×), goal met"), "{text}");
        assert!(text.contains("tgt <1>: 82× (78× to 86×), without the offload"), "{text}");
    }

    #[test]
    fn comparison_has_every_figure_of_both_reports() {
        let pair = pair(2.0);
        let (text, page) = (text(&pair), page(&pair));
        assert!(text.contains("faster with XCOPY: different\n       ibid: 41× (39× to 43×), goal met"), "{text}");
        assert!(page.contains("tgt &lt;1&gt;") && page.contains("82×"), "{page}");
    }
}
