//! The samples as CSV (RFC 4180), one number per line.

use crate::results::LabReport;

pub(super) fn render(report: &LabReport) -> String {
    let mut text = String::from("experiment,name,case,setting,repetition,measure,unit,value\r\n");
    for outcome in &report.outcomes {
        for sample in &outcome.findings.samples.0 {
            let unit = serde_json::to_value(sample.unit).ok().and_then(|unit| Some(unit.as_str()?.to_owned()));
            let fields = [
                outcome.id.clone(),
                outcome.name.clone(),
                sample.case.clone(),
                sample.setting.clone(),
                sample.repetition.to_string(),
                sample.measure.clone(),
                unit.unwrap_or_default(),
                sample.value.to_string(),
            ];
            text += &fields.map(|field| quoted(&field)).join(",");
            text += "\r\n";
        }
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn csv_has_a_line_per_sample_and_quotes_commas() {
        let report = report();
        let text = render(&report);
        let samples: usize = report.outcomes.iter().map(|o| o.findings.samples.0.len()).sum();
        assert!(samples > 0);
        assert_eq!(text.lines().count(), samples + 1);
        assert!(text.contains("L2,deploy,,XCOPY off,0,time,seconds,"), "{text}");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
