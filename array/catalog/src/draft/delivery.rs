//! Changes of the delivery of alerts.

use super::Draft;
use crate::CatalogError;
use crate::delivery::DeliverySettings;

impl Draft {
    /// Changes where alerts are delivered.
    ///
    /// # Errors
    ///
    /// Returns the error of `edit`, or that of a result which is outside the limits.
    pub fn edit_delivery<T, E: From<CatalogError>>(
        &mut self,
        edit: impl FnOnce(&mut DeliverySettings) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut settings = DeliverySettings::clone(self.state.delivery());
        let value = edit(&mut settings)?;
        if settings == **self.state.delivery() {
            return Ok(value);
        }
        settings.check()?;
        self.put_delivery(settings)?;
        Ok(value)
    }

    /// Stores the settings with sealed secrets.
    pub(crate) fn put_delivery(&mut self, settings: DeliverySettings) -> Result<(), CatalogError> {
        let stored = settings.sealed(self.keys.as_deref());
        self.put(&stored.ok_or_else(|| CatalogError::NoSecretKey { name: "delivery".to_owned() })?)?;
        self.state.put_delivery(settings);
        Ok(())
    }
}
