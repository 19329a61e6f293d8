//! Why a request was not done, and how that is said in the dialect.

use api::{ApiError, ErrorBody, GatewayError};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::CatalogError;

/// Why a request was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestError {
    /// The request is wrong, or the state of things does not allow it: one entry for each object concerned.
    Bad(Vec<ApiError>),
    /// No session, or one that is over: clients log in again.
    Unauthorized(&'static str),
    /// No such path.
    NotFound,
    /// The path does not take this method.
    BadMethod,
    /// The body is larger than any good one.
    TooLarge,
    /// The body did not come.
    TooSlow,
    /// Too many failed logins.
    TooManyLogins,
    /// The array cannot.
    Internal(String),
}

impl RestError {
    /// The request is wrong in itself.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::Bad(vec![ApiError { context: None, message: message.into() }])
    }

    /// The request is wrong for one object.
    pub(crate) fn about(context: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Bad(vec![ApiError { context: Some(context.into()), message: message.into() }])
    }
}

impl From<CatalogError> for RestError {
    fn from(error: CatalogError) -> Self {
        match &error {
            CatalogError::Engine(engine::OpError::NoSpace) => Self::bad("The array is out of space."),
            CatalogError::Engine(_) | CatalogError::Damaged { .. } => Self::Internal(error.to_string()),
            _ => Self::Bad(vec![ApiError {
                context: error.context().map(ToOwned::to_owned),
                message: error.to_string(),
            }]),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let one = |status: StatusCode, message: &str| {
            let errors = vec![ApiError { context: None, message: message.to_owned() }];
            (status, Json(ErrorBody { errors })).into_response()
        };
        match self {
            Self::Bad(errors) => (StatusCode::BAD_REQUEST, Json(ErrorBody { errors })).into_response(),
            Self::Unauthorized(message) => one(StatusCode::UNAUTHORIZED, message),
            Self::NotFound => one(
                StatusCode::NOT_FOUND,
                "There is nothing at this path: they begin with /api/2.26/ and are those of docs/rest.md.",
            ),
            Self::BadMethod => one(StatusCode::METHOD_NOT_ALLOWED, "This path does not take this method."),
            Self::TooLarge => one(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large."),
            Self::TooSlow => one(StatusCode::REQUEST_TIMEOUT, "The body did not come in time."),
            Self::TooManyLogins => {
                let message = "Too many failed logins from this address; wait a minute.".to_owned();
                (StatusCode::TOO_MANY_REQUESTS, Json(GatewayError { message })).into_response()
            }
            Self::Internal(message) => {
                tracing::error!("a request failed: {message}");
                one(StatusCode::INTERNAL_SERVER_ERROR, &message)
            }
        }
    }
}
