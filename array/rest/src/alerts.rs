//! `/alerts`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use api::ErrorCode;

/// Answers `GET /alerts`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "flagged"]])?;
    call.app.update_alerts();
    let mut alerts = call.app.alerts.all();
    if let Some(flagged) = call.query.flag("flagged")? {
        alerts.retain(|alert| alert.flagged == flagged);
    }
    let asked = call.query.list("names").or_else(|| call.query.list("ids"));
    if let Some(asked) = asked {
        if let Some(unknown) = asked.iter().find(|name| !alerts.iter().any(|alert| alert.name == **name)) {
            return Err(RestError::about(ErrorCode::AlertNotFound, unknown, "Alert does not exist."));
        }
        alerts.retain(|alert| asked.contains(&alert.name));
    }
    page(alerts, &call.query, &["created", "id"])
}
