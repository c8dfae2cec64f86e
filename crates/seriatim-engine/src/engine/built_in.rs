//! The number of partitions of the built-in applications. It is chosen when a storage is created, and then fixed.

use seriatim_types::PartitionCount;

use super::app::App;
use super::open::OpenError;
use crate::apps::registry::Registry;
use crate::apps::series;
use crate::limits::BUILT_IN_PARTITIONS_MAX;

fn by_option(apps: &mut [App]) -> impl Iterator<Item = &mut App> {
    apps.iter_mut().filter(|app| app.built_in.is_some_and(|built_in| built_in.partitions_by_option))
}

/// Sets the number of partitions that a new storage has.
pub(super) fn use_option(apps: &mut [App], count: u16) -> Result<(), OpenError> {
    let wrong = OpenError::BuiltInPartitions(count);
    let count = PartitionCount::new(count).filter(|count| count.get() <= BUILT_IN_PARTITIONS_MAX);
    let count = count.ok_or(wrong)?;
    by_option(apps).for_each(|app| app.definition.partitions = count);
    Ok(())
}

/// Replaces the number of partitions by the one that the storage has. Every storage has `series`, so its number is also that of
/// an application which the storage does not have yet.
pub(super) async fn keep_stored(registry: &Registry<'_>, apps: &mut [App]) -> Result<(), OpenError> {
    let Some(of_series) = registry.accepted(series::NAME).await? else { return Ok(()) };
    for app in by_option(apps) {
        let accepted = registry.accepted(&app.definition.name).await?;
        let stored = accepted.as_ref().unwrap_or(&of_series).application().partitions;
        let wanted = std::mem::replace(&mut app.definition.partitions, stored);
        if wanted != stored {
            let (application, stored, wanted) = (&*app.definition.name, stored.get(), wanted.get());
            tracing::warn!(
                application,
                stored,
                wanted,
                "the storage was created with another number of partitions for built-in applications, and keeps it: the setting built_in_partitions has no effect"
            );
        }
    }
    Ok(())
}
