//! Opens an engine: the registry first, then all applications together.

use std::collections::HashMap;
use std::sync::Arc;

use quick_cache::sync::Cache;
use seriatim_env::Env;
use seriatim_env::watch;
use seriatim_storage::{Holder, Log, LogError, Owner, Store, Take, TakeOverError};
use seriatim_types::{ApplicationId, ErrorKind, Partition, WorkspaceId};

use crate::apps::blocks::open_allocators::OpenAllocators;
use crate::apps::hosted::{BuiltIn, RunningBuiltIn};
use crate::apps::registry::{self, AcceptedIn, Registry, RegistryMemory, WORKSPACE_IDS};
use crate::apps::series;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::definition::{Accepted, Application, DefinitionError, Schema};
use crate::derive::{Budget, Observer, Stretch};
use crate::engine::app::App;
use crate::engine::options::Options;
use crate::engine::others::{Alone, Among, Others};
use crate::engine::running::Running;
use crate::error::SubmitError;
use crate::limits::BUILT_IN_PARTITIONS_MAX;
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
    /// Another engine has taken a partition over while this one opened.
    #[error(transparent)]
    TakeOver(TakeOverError),
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
            Self::TakeOver(error) => error.kind(),
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
    memory: Arc<RegistryMemory>,
    clock: Arc<EventClock>,
    holder: Holder,
    others: Arc<dyn Others>,
}

impl<'a> Opening<'a> {
    fn new(env: &'a Env, log: &'a Log, store: &'a Store, options: Options, among: Among) -> Self {
        let Among { holder, others, .. } = among;
        Self {
            env,
            log,
            store,
            options,
            budget: Arc::new(budget(&options)),
            queue: Arc::new(QueueBudget::new(options.queue_bytes_max)),
            memory: Arc::new(RegistryMemory::new(Arc::default())),
            clock: Arc::new(EventClock::new(env.clone())),
            holder,
            others,
        }
    }

    /// An application whose partitions are elsewhere.
    /// `sys` is the registry that has accepted it; `None` for the registry itself.
    fn run(&self, app: App, accepted: &Accepted, sys: Option<Arc<Running>>) -> Result<Running, OpenError> {
        let schema = Arc::new(schema_of(&app, accepted)?);
        let accepted_in = sys.map(|sys| AcceptedIn { sys, accepted: accepted.clone() });

        let derivation = Arc::new(Derivation {
            schema: schema.clone(),
            projectors: app.projectors,
            accepted: accepted_in,
        });
        let mut options = self.options;
        if app.built_in.is_some_and(|built_in| built_in.keeps_keys) {
            options.idempotency_window = None;
        }
        let places = watch::Sender::new(());
        let is_registry = accepted.id() == registry::ID;
        let parts = Parts {
            env: self.env.clone(),
            log: self.log.clone(),
            store: self.store.clone(),
            derivation: derivation.clone(),
            options,
            budget: self.budget.clone(),
            queue: self.queue.clone(),
            fence: self.memory.fence.clone(),
            clock: self.clock.clone(),
            holder: self.holder.clone(),
            projectors: app.async_projectors,
            observer: is_registry.then(|| self.memory.clone() as Arc<dyn Observer>),
            places: places.clone(),
        };
        let handle = |partition| PartitionHandle::new(partition, parts.clone());
        let partitions = partitions_of(accepted).into_iter().map(handle).collect();
        let cached = self.options.cached_workspaces;
        let built_in = app.built_in.map(|terms| RunningBuiltIn::new(terms, cached));
        let (commands, others) = (app.commands, self.others.clone());
        Ok(Running { schema, derivation, commands, partitions, built_in, others, places })
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
        let holder = Holder::new(&format!("engine-{:016x}", env.random()));
        let among = Among { holder, others: Arc::new(Alone), owns_registry: true };
        let engine = Self::join(env, log, store, applications, options, among).await?;
        match engine.own_all().await {
            Ok(()) => Ok(engine),
            Err(error) => {
                engine.close().await;
                Err(error)
            }
        }
    }

    /// Opens applications on a log that several engines share, each with a store of its own. At first this engine owns or follows
    /// the registry, and all other partitions are elsewhere: [`Engine::own`] and [`Engine::stand_by`] change that.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. No application runs, and the log and the store remain open.
    pub async fn join(
        env: Env,
        log: Log,
        store: Store,
        applications: impl IntoIterator<Item = App>,
        options: Options,
        among: Among,
    ) -> Result<Self, OpenError> {
        let mut apps = with_built_in(applications)?;
        built_in::use_option(&mut apps, options.built_in_partitions)?;
        let owns_registry = among.owns_registry;
        let opening = Opening::new(&env, &log, &store, options, among);
        let (app, accepted) = registry::app()?;
        let sys = Arc::new(opening.run(app, &accepted, None)?);
        if owns_registry {
            own_registry(&opening, &sys).await?;
        } else {
            sys.partition_of(registry::WORKSPACE).stand_by().await?;
        }
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
        opening.memory.read_fence(&registry).await?;
        built_in::keep_stored(&registry, &mut apps).await?;
        check_applications(&registry, &apps).await?;
        let mut accepted = Vec::with_capacity(apps.len());
        for app in &apps {
            accepted.push(registry.accept(&app.definition, app.built_in.map(|built_in| built_in.id)).await?);
        }
        let names = apps.iter().map(|app| app.definition.name.clone()).collect();
        let built_in = apps.iter().filter(|app| app.built_in.is_some()).count();
        registry.define_blocks(WORKSPACE_IDS, WorkspaceId::FIRST.get(), WORKSPACE_ID_BLOCK).await?;
        let mut applications = HashMap::new();
        for (app, accepted) in apps.into_iter().zip(&accepted) {
            let running = opening.run(app, accepted, Some(sys.clone()))?;
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
            open_allocators: OpenAllocators::new(opening.env.clone(), &opening.options),
            memory: opening.memory.clone(),
            holder: opening.holder.clone(),
            options: opening.options,
        };
        let engine = Self { inner: Arc::new(inner) };
        if let Err(error) = engine.tokens().load().await {
            engine.close().await;
            return Err(error.into());
        }
        Ok(engine)
    }

    /// Opens applications to read them. It takes no partition and writes no event: it follows all logs, and every command is refused
    /// with [`SubmitError::NotHere`]. For programs that look at a storage.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. [`OpenError::Registry`] with [`SubmitError::NotHere`] if a definition was not accepted yet: then the
    /// applications have to be opened with [`Engine::open`] once.
    pub async fn look(
        env: Env,
        log: Log,
        store: Store,
        applications: impl IntoIterator<Item = App>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let holder = Holder::new(&format!("looking-{:016x}", env.random()));
        let among = Among { holder, others: Arc::new(Alone), owns_registry: false };
        let engine = Self::join(env, log, store, applications, options, among).await?;
        for partition in engine.every_partition() {
            // A partition that was just opened is elsewhere, so nothing is released here that could fail.
            engine.stand_by(partition).await?;
        }
        Ok(engine)
    }

    /// Takes all partitions of all applications. All together: one synced write raises every epoch.
    async fn own_all(&self) -> Result<(), OpenError> {
        let handles: Vec<&PartitionHandle> = self
            .inner
            .names
            .iter()
            .filter_map(|name| self.inner.applications.get(name))
            .flat_map(|running| &running.partitions)
            .collect();
        let partitions: Vec<Partition> = handles.iter().map(|handle| handle.partition).collect();
        let owners = take_all(&self.inner.env, &self.inner.log, &self.inner.holder, &partitions).await?;
        for (handle, owner) in handles.into_iter().zip(owners) {
            handle.start(owner);
        }
        Ok(())
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
        let sys = Self::look_at_registry(&env, &log, &store).await?;
        let accepted = match wait_ready(&sys).await {
            Ok(()) => Registry { sys: &sys }.all_accepted().await,
            Err(error) => Err(error),
        };
        sys.close().await;
        let of_users =
            accepted?.into_iter().filter(|accepted| accepted.id() >= registry::FIRST_APPLICATION_ID);
        Ok(of_users.map(|accepted| accepted.application().clone()).collect())
    }

    /// Opens only the registry, to read it.
    async fn look_at_registry(env: &Env, log: &Log, store: &Store) -> Result<Running, OpenError> {
        let holder = Holder::new("looking");
        let among = Among { holder, others: Arc::new(Alone), owns_registry: false };
        let opening = Opening::new(env, log, store, Options::default(), among);
        let (app, accepted) = registry::app()?;
        let sys = opening.run(app, &accepted, None)?;
        sys.partition_of(registry::WORKSPACE).stand_by().await?;
        Ok(sys)
    }

    /// Opens only the registry.
    async fn open_registry(env: &Env, log: &Log, store: &Store) -> Result<Running, OpenError> {
        let holder = Holder::new(&format!("registry-{:016x}", env.random()));
        let among = Among { holder, others: Arc::new(Alone), owns_registry: true };
        let opening = Opening::new(env, log, store, Options::default(), among);
        let (app, accepted) = registry::app()?;
        let sys = opening.run(app, &accepted, None)?;
        own_registry(&opening, &sys).await?;
        Ok(sys)
    }
}

/// Takes partitions over from any holder, with one durable write if the log can.
async fn take_all(
    env: &Env,
    log: &Log,
    holder: &Holder,
    partitions: &[Partition],
) -> Result<Vec<Owner>, OpenError> {
    let take = Take::new(holder.clone(), env.random());
    let mut expected = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let held = log.holder(*partition).await?;
        expected.push((*partition, held.map(|held| held.epoch)));
    }
    let taken = log.take_over_all(&expected, &take).await?;
    taken.into_iter().map(|taken| taken.map_err(OpenError::TakeOver)).collect()
}

/// Takes the registry. It recovers by itself.
async fn own_registry(opening: &Opening<'_>, sys: &Running) -> Result<(), OpenError> {
    let owners = take_all(opening.env, opening.log, &opening.holder, &[registry::PARTITION]).await?;
    for owner in owners {
        sys.partition_of(registry::WORKSPACE).start(owner);
    }
    Ok(())
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
