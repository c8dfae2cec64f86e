//! Opens an engine: the registry first, then all applications together.

use std::collections::HashMap;
use std::sync::Arc;

use quick_cache::sync::Cache;
use seriatim_blocks::{BlockAllocator, BlockOptions, BlockSize};
use seriatim_env::Env;
use seriatim_storage::{Log, LogError, Owner, Store};
use seriatim_types::{ApplicationId, ErrorKind, Number, Partition, WorkspaceId};

use crate::apps::blocks::open_allocators::OpenAllocators;
use crate::apps::blocks::store::RegistryBlocks;
use crate::apps::hosted::{BuiltIn, RunningBuiltIn};
use crate::apps::registry::{self, Registry, WORKSPACE_IDS};
use crate::apps::series;
use crate::apps::tokens::TokenTable;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::definition::{Accepted, Application, DefinitionError, Schema};
use crate::derive::{Budget, Stretch};
use crate::engine::app::App;
use crate::engine::options::Options;
use crate::engine::running::Running;
use crate::error::SubmitError;
use crate::limits::BUILT_IN_PARTITIONS_MAX;
use crate::operate::fence::Fence;
use crate::operate::unfence;
use crate::partition::{PartitionHandle, Parts, QueueBudget};

use super::{Engine, Inner, built_in, wait_ready};

/// Small, because a crash wastes up to so many ids, and workspaces are created seldom.
const WORKSPACE_ID_BLOCK: u64 = 256;

/// All applications in the order in which they are opened: `series`, which every engine has, the other built-in ones, then
/// those of users.
pub(crate) fn with_built_in(
    applications: impl IntoIterator<Item = App>,
) -> Result<Vec<App>, DefinitionError> {
    let (built_in, others): (Vec<App>, Vec<App>) =
        applications.into_iter().partition(|app| app.built_in.is_some());
    Ok([series::app()?].into_iter().chain(built_in).chain(others).collect())
}

/// Why an engine did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A definition is wrong, or contradicts what is stored.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The definition of an application contradicts the one that was accepted before.
    #[error("the definition of {application} is not accepted: {error}")]
    NotAccepted {
        /// The application.
        application: String,
        /// The contradiction.
        error: Box<DefinitionError>,
    },
    /// Two applications with one name.
    #[error("two applications have the name {0}, or it is the name of a built-in one: choose another name")]
    NameTaken(String),
    /// A built-in application has a number that is not reserved for one, or that another one has.
    #[error(
        "application {application} cannot be a built-in one with number {id}: the number is not reserved, or is taken"
    )]
    NumberTaken {
        /// The application.
        application: String,
        /// Its number.
        id: ApplicationId,
    },
    /// The number of partitions for built-in applications is not valid.
    #[error(
        "built-in applications cannot have {0} partitions: set built_in_partitions to 1 to {BUILT_IN_PARTITIONS_MAX}"
    )]
    BuiltInPartitions(u16),
    /// Code for a command that the definition does not have.
    #[error(
        "application {application} has code for command {command}, which its definition does not have: remove the code"
    )]
    UnknownCommand {
        /// The application.
        application: String,
        /// The command.
        command: String,
    },
    /// The log could not be taken.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The registry could not be read or written.
    #[error("the registry could not be read or written: {0}")]
    Registry(#[from] SubmitError),
    /// Workspace ids cannot be allocated.
    #[error("workspace ids cannot be allocated: {0}")]
    Blocks(seriatim_blocks::OpenError),
}

impl OpenError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Definition(error) => error.kind(),
            Self::NotAccepted { error, .. } => error.kind(),
            Self::NameTaken(_)
            | Self::NumberTaken { .. }
            | Self::BuiltInPartitions(_)
            | Self::UnknownCommand { .. } => ErrorKind::Invalid,
            Self::Log(error) => error.kind(),
            Self::Registry(error) => error.kind(),
            Self::Blocks(error) => error.kind(),
        }
    }
}

/// What the partitions of all applications share.
struct Opening<'a> {
    env: &'a Env,
    log: &'a Log,
    store: &'a Store,
    options: Options,
    budget: Arc<Budget>,
    queue: Arc<QueueBudget>,
    sharing: usize,
    fence: Arc<Fence>,
    clock: Arc<EventClock>,
}

impl Opening<'_> {
    fn run(&self, app: App, accepted: &Accepted, owners: Vec<Owner>) -> Result<Running, OpenError> {
        let schema = Arc::new(schema_of(&app, accepted)?);
        let derivation = Arc::new(Derivation { schema: schema.clone(), projectors: app.projectors });
        let mut options = self.options;
        if app.built_in.is_some_and(|built_in| built_in.keeps_keys) {
            options.idempotency_window = None;
        }
        let start = |owner| {
            PartitionHandle::start(Parts {
                env: self.env.clone(),
                log: self.log.clone(),
                store: self.store.clone(),
                owner,
                derivation: derivation.clone(),
                options,
                budget: self.budget.clone(),
                queue: self.queue.clone(),
                sharing: self.sharing,
                fence: self.fence.clone(),
                clock: self.clock.clone(),
            })
        };
        let partitions: Vec<PartitionHandle> = owners.into_iter().map(start).collect();
        for partition in &partitions {
            for projector in &app.async_projectors {
                partition.follow(projector.clone());
            }
        }
        let cached = self.options.cached_workspaces;
        let built_in = app.built_in.map(|terms| RunningBuiltIn::new(terms, cached));
        Ok(Running { schema, derivation: derivation.clone(), commands: app.commands, partitions, built_in })
    }
}

/// The schema of an application. Fails if there is code for a command that the definition does not have.
fn schema_of(app: &App, accepted: &Accepted) -> Result<Schema, OpenError> {
    let schema = Schema::new(accepted)?;
    match app.commands.keys().find(|name| schema.command(name).is_none()) {
        None => Ok(schema),
        Some(command) => {
            let application = schema.name().to_owned();
            Err(OpenError::UnknownCommand { application, command: command.clone() })
        }
    }
}

/// Checks all applications. Accepting a definition is durable and assigns its numbers permanently, so no definition is
/// accepted before all of them have passed.
async fn check_applications(registry: &Registry<'_>, apps: &[App]) -> Result<(), OpenError> {
    let mut names: Vec<&str> = Vec::with_capacity(apps.len());
    check_numbers(apps)?;
    for app in apps {
        let name = &*app.definition.name;
        if name == registry::NAME || names.contains(&name) {
            return Err(OpenError::NameTaken(name.to_owned()));
        }
        names.push(name);
        let previous = registry.accepted(name).await?;
        if previous.as_ref().is_some_and(|previous| !has_its_number(app, previous.id())) {
            return Err(OpenError::NameTaken(name.to_owned()));
        }
        // The number of a new application is not known yet. No check depends on it.
        let id = previous.as_ref().map_or(registry::FIRST_APPLICATION_ID, Accepted::id);
        let accepted = Accepted::accept(previous.as_ref(), id, &app.definition)
            .map_err(|error| OpenError::NotAccepted { application: name.to_owned(), error: error.into() })?;
        schema_of(app, &accepted)?;
    }
    Ok(())
}

/// Whether an application may have the number that it has in the registry.
fn has_its_number(app: &App, id: ApplicationId) -> bool {
    app.built_in.map_or(id >= registry::FIRST_APPLICATION_ID, |built_in| built_in.id == id)
}

/// Checks that the numbers of built-in applications are reserved for them, and that no two have the same.
fn check_numbers(apps: &[App]) -> Result<(), OpenError> {
    let mut taken = Vec::new();
    for app in apps {
        let Some(BuiltIn { id, .. }) = app.built_in else { continue };
        let is_reserved = id > registry::ID && id < registry::FIRST_APPLICATION_ID;
        if !is_reserved || taken.contains(&id) {
            return Err(OpenError::NumberTaken { application: app.definition.name.clone(), id });
        }
        taken.push(id);
    }
    Ok(())
}

/// The budget that all partitions share for unflushed values and for the part of the log that is not checkpointed.
fn budget(options: &Options) -> Budget {
    let (events, bytes) = (options.uncheckpointed_events_max, options.uncheckpointed_bytes_max);
    Budget::new(options.unflushed_max, options.unflushed_bytes_max, Stretch { events, bytes })
}

fn partitions_of(accepted: &Accepted) -> Vec<Partition> {
    let application = accepted.id();
    let count = accepted.application().partitions;
    count.partitions().map(|id| Partition { application, id }).collect()
}

impl Engine {
    /// Opens applications on a log and a store. It takes all their partitions.
    ///
    /// The registry accepts the definitions. It refuses a definition that contradicts stored data or does not fit its code,
    /// and accepts none unless it can accept all. `open` returns when the registry is ready. The applications may still
    /// recover then: [`Engine::wait_ready`] waits for them.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. No application runs, and the log and the store remain open. Definitions may have been accepted if the
    /// error is of storage.
    pub async fn open(
        env: Env,
        log: Log,
        store: Store,
        applications: impl IntoIterator<Item = App>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let mut apps = with_built_in(applications)?;
        built_in::use_option(&mut apps, options.built_in_partitions)?;
        let partitions = apps.iter().map(|app| usize::from(app.definition.partitions.get())).sum::<usize>();
        let opening = Opening {
            env: &env,
            log: &log,
            store: &store,
            options,
            budget: Arc::new(budget(&options)),
            queue: Arc::new(QueueBudget::new(options.queue_bytes_max)),
            sharing: partitions + 1,
            fence: Arc::default(),
            clock: Arc::new(EventClock::new(env.clone())),
        };
        let (app, accepted) = registry::app()?;
        let owners = log.take_all(&partitions_of(&accepted)).await?;
        let sys = Arc::new(opening.run(app, &accepted, owners)?);
        let opened = Self::open_applications(&opening, apps, sys.clone()).await;
        if opened.is_err() {
            sys.close().await;
        }
        opened
    }

    async fn open_applications(
        opening: &Opening<'_>,
        mut apps: Vec<App>,
        sys: Arc<Running>,
    ) -> Result<Self, OpenError> {
        wait_ready(&sys).await?;
        let registry = Registry { sys: &sys };
        opening.fence.set(registry.fence_state().await?);
        built_in::keep_stored(&registry, &mut apps).await?;
        check_applications(&registry, &apps).await?;
        let mut accepted = Vec::with_capacity(apps.len());
        for app in &apps {
            accepted.push(registry.accept(&app.definition, app.built_in.map(|built_in| built_in.id)).await?);
        }
        let names = apps.iter().map(|app| app.definition.name.clone()).collect();
        let built_in = apps.iter().filter(|app| app.built_in.is_some()).count();
        registry.define_blocks(WORKSPACE_IDS, WorkspaceId::FIRST.get(), WORKSPACE_ID_BLOCK).await?;
        let first = Number::new(WorkspaceId::FIRST.get());
        let blocks = RegistryBlocks::new(opening.env.clone(), sys.clone(), WORKSPACE_IDS, first);
        let block_options =
            BlockOptions { size: BlockSize::Fixed(WORKSPACE_ID_BLOCK), ..BlockOptions::default() };
        let allocator = BlockAllocator::open(opening.env.clone(), Arc::new(blocks), block_options).await;
        let workspace_ids = allocator.map_err(OpenError::Blocks)?;
        // All partitions together: one synced write raises every epoch.
        let all: Vec<Partition> = accepted.iter().flat_map(partitions_of).collect();
        let mut owners = opening.log.take_all(&all).await?.into_iter();
        let mut applications = HashMap::new();
        for (app, accepted) in apps.into_iter().zip(&accepted) {
            let count = usize::from(accepted.application().partitions.get());
            let running = opening.run(app, accepted, owners.by_ref().take(count).collect())?;
            applications.insert(running.schema.name().to_owned(), Arc::new(running));
        }
        let inner = Inner {
            env: opening.env.clone(),
            log: opening.log.clone(),
            store: opening.store.clone(),
            sys,
            applications,
            names,
            built_in,
            kinds: Cache::new(opening.options.cached_workspaces),
            workspace_ids,
            open_allocators: OpenAllocators::new(opening.env.clone(), &opening.options),
            fence: opening.fence.clone(),
            tokens: TokenTable::default(),
            options: opening.options,
        };
        let engine = Self { inner: Arc::new(inner) };
        if let Err(error) = engine.tokens().load().await {
            engine.close().await;
            return Err(error.into());
        }
        Ok(engine)
    }

    /// Fences a copy that was just restored, or a log that has lost events, before it is opened. An engine on it reads, and
    /// gives out no numbers until it is unfenced.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. The storage may be fenced nevertheless; call it again.
    pub async fn fence(env: Env, log: Log, store: Store) -> Result<(), OpenError> {
        let sys = Self::open_registry(&env, &log, &store).await?;
        let fenced = append_fence(&log, &sys).await;
        sys.close().await;
        fenced
    }

    /// The definitions that a storage contains, as they were last accepted, without the built-in ones. For programs that
    /// inspect a storage and do not know its applications.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the registry cannot be opened or read.
    pub async fn stored_applications(
        env: Env,
        log: Log,
        store: Store,
    ) -> Result<Vec<Application>, OpenError> {
        let sys = Self::open_registry(&env, &log, &store).await?;
        let accepted = match wait_ready(&sys).await {
            Ok(()) => Registry { sys: &sys }.all_accepted().await,
            Err(error) => Err(error),
        };
        sys.close().await;
        let of_users =
            accepted?.into_iter().filter(|accepted| accepted.id() >= registry::FIRST_APPLICATION_ID);
        Ok(of_users.map(|accepted| accepted.application().clone()).collect())
    }

    /// Opens only the registry.
    async fn open_registry(env: &Env, log: &Log, store: &Store) -> Result<Running, OpenError> {
        let options = Options::default();
        let opening = Opening {
            env,
            log,
            store,
            options,
            budget: Arc::new(budget(&options)),
            queue: Arc::new(QueueBudget::new(options.queue_bytes_max)),
            sharing: 1,
            fence: Arc::default(),
            clock: Arc::new(EventClock::new(env.clone())),
        };
        let (app, accepted) = registry::app()?;
        let owners = log.take_all(&partitions_of(&accepted)).await?;
        opening.run(app, &accepted, owners)
    }
}

/// Appends the fence, with the tails of all partitions of applications.
async fn append_fence(log: &Log, sys: &Running) -> Result<(), OpenError> {
    wait_ready(sys).await?;
    let (mut tails, mut last) = (Vec::new(), registry::ID);
    for partition in log.partitions().await? {
        if partition.application != registry::ID {
            let tail = log.tail(partition).await?;
            tails.push((partition.application.get(), partition.id.get(), tail.get()));
            last = last.max(partition.application);
        }
    }
    // Definitions are accepted also while everything is fenced. If the registry has lost one, a new application must not get
    // its number, because events of the lost one may be stored under it.
    unfence::pass_applications(sys, last).await?;
    Ok(Registry { sys }.fence(&tails).await?)
}
