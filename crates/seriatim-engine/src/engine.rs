//! The engine: applications on one log and one store.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use quick_cache::sync::Cache;
use seriatim_blocks::{AllocateError, BlockAllocator, BlockOptions, BlockSize};
use seriatim_env::Env;
use seriatim_storage::{Log, LogError, Owner, Store};
use seriatim_types::{ApplicationId, ErrorKind, Number, Partition, PartitionId, WorkspaceId, WorkspaceKind};

use crate::app::{App, Running};
use crate::apply::Derivation;
use crate::blocks::RegistryBlocks;
use crate::definition::{Accepted, Application, DefinitionError, Schema};
use crate::derive::{Budget, Stretch};
use crate::error::{RequestError, SubmitError};
use crate::event_clock::EventClock;
use crate::fence::{Fence, FenceState};
use crate::hosted::{BuiltIn, RunningBuiltIn};
use crate::named_blocks::OpenBlocks;
use crate::options::Options;
use crate::partition::{PartitionHandle, PartitionState, Parts, QueueBudget};
use crate::prepare::check_key;
use crate::registry::{self, Registration, Registry, WORKSPACE_IDS, Workspace};
use crate::request::{Answer, Request};
use crate::series;
use crate::tokens::TokenTable;
use crate::unfence;

/// Small: a crash wastes at most so many ids, and a workspace is not made every microsecond.
const WORKSPACE_ID_BLOCK: u64 = 256;

/// All applications in the order in which they are opened: series, which is always there, the other built-in ones, then
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
    /// The definition of an application contradicts the one accepted before.
    #[error("the definition of {application} is not accepted: {error}")]
    NotAccepted {
        /// The application.
        application: String,
        /// What contradicts it.
        error: Box<DefinitionError>,
    },
    /// Two applications with one name.
    #[error("application {0} is given twice, or has the name of a built-in one")]
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
    /// Code for a command that the definition does not have.
    #[error("application {application} has code for command {command}, which its definition does not have")]
    UnknownCommand {
        /// The application.
        application: String,
        /// The command.
        command: String,
    },
    /// The log could not be taken.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The registry does not work.
    #[error("the registry: {0}")]
    Registry(#[from] SubmitError),
    /// Workspace ids cannot be allocated.
    #[error("workspace ids: {0}")]
    Blocks(seriatim_blocks::OpenError),
}

impl OpenError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Definition(error) => error.kind(),
            Self::NotAccepted { error, .. } => error.kind(),
            Self::NameTaken(_) | Self::NumberTaken { .. } | Self::UnknownCommand { .. } => ErrorKind::Invalid,
            Self::Log(error) => error.kind(),
            Self::Registry(error) => error.kind(),
            Self::Blocks(error) => error.kind(),
        }
    }
}

/// Runs applications: commands in, numbered events out. Cheap to clone; close it once.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    env: Env,
    log: Log,
    store: Store,
    sys: Arc<Running>,
    applications: HashMap<String, Arc<Running>>,
    /// In the order in which they were opened: built-in ones first.
    names: Vec<String>,
    /// How many of the names are of built-in applications.
    built_in: usize,
    kinds: Cache<(ApplicationId, WorkspaceId), WorkspaceKind>,
    workspace_ids: BlockAllocator,
    open_blocks: OpenBlocks,
    fence: Arc<Fence>,
    tokens: TokenTable,
    options: Options,
}

/// What partitions of all applications have in common.
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

/// What an application runs by, if its code and its definition fit together.
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

/// Checks everything about the applications that can be wrong with them. Accepting a definition is durable and fixes its numeric
/// ids permanently, so nothing is accepted before all of them have passed.
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
        // The number that a new one gets is not known yet, and nothing that is checked depends on it.
        let id = previous.as_ref().map_or(registry::FIRST_APPLICATION_ID, Accepted::id);
        let accepted = Accepted::accept(previous.as_ref(), id, &app.definition)
            .map_err(|error| OpenError::NotAccepted { application: name.to_owned(), error: error.into() })?;
        schema_of(app, &accepted)?;
    }
    Ok(())
}

/// Whether the number that an application has in the registry is one that it may have.
fn has_its_number(app: &App, id: ApplicationId) -> bool {
    app.built_in.map_or(id >= registry::FIRST_APPLICATION_ID, |built_in| built_in.id == id)
}

/// Checks that built-in applications have numbers that are reserved for them, each its own.
fn check_numbers(apps: &[App]) -> Result<(), OpenError> {
    let mut last = Vec::new();
    for app in apps {
        let Some(BuiltIn { id, .. }) = app.built_in else { continue };
        let is_reserved = id > registry::ID && id < registry::FIRST_APPLICATION_ID;
        if !is_reserved || last.contains(&id) {
            return Err(OpenError::NumberTaken { application: app.definition.name.clone(), id });
        }
        last.push(id);
    }
    Ok(())
}

/// What all partitions may have waiting.
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
    /// Opens applications on a log and a store. Definitions are accepted by the registry, or refused if they contradict
    /// what is stored or do not fit their code; none is accepted unless all of them can be. Returns when the registry is ready; the applications recover meanwhile.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing runs then.
    pub async fn open(
        env: Env,
        log: Log,
        store: Store,
        applications: impl IntoIterator<Item = App>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let apps = with_built_in(applications)?;
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
        apps: Vec<App>,
        sys: Arc<Running>,
    ) -> Result<Self, OpenError> {
        wait_ready(&sys).await?;
        let registry = Registry { sys: &sys };
        opening.fence.set(registry.fence_state().await?);
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
        // All partitions at once: one synced write raises every epoch.
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
            open_blocks: OpenBlocks::new(opening.env.clone(), &opening.options),
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

    /// Fences a copy that was just restored, or a log that has lost events, before it is opened: it reads, and gives out nothing
    /// until it is unfenced.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; it may be fenced all the same.
    pub async fn fence(env: Env, log: Log, store: Store) -> Result<(), OpenError> {
        let sys = Self::open_registry(&env, &log, &store).await?;
        let fenced = append_fence(&log, &sys).await;
        sys.close().await;
        fenced
    }

    /// The definitions that a storage knows of, as they were accepted last, without the built-in ones. For looking at a
    /// storage without being told what is in it.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
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

    /// Opens the registry alone.
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

    /// The names of the applications, in the order in which they were given; built-in ones are not among them.
    #[must_use]
    pub fn applications(&self) -> &[String] {
        &self.inner.names[self.inner.built_in..]
    }

    /// The definition of an application.
    #[must_use]
    pub fn schema(&self, application: &str) -> Option<&Schema> {
        self.inner.applications.get(application).map(|running| &*running.schema)
    }

    pub(crate) fn running(&self, application: &str) -> Result<&Arc<Running>, SubmitError> {
        let running = self.inner.applications.get(application);
        running.ok_or_else(|| SubmitError::UnknownApplication(application.to_owned()))
    }

    pub(crate) fn registry(&self) -> Registry<'_> {
        Registry { sys: &self.inner.sys }
    }

    pub(crate) fn running_by_id(&self, id: ApplicationId) -> Result<&Arc<Running>, SubmitError> {
        let running = self.inner.applications.values().find(|running| running.schema.id() == id);
        running.ok_or_else(|| SubmitError::UnknownApplication(id.to_string()))
    }

    /// The door to clock, spawn and randomness that it runs behind.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    pub(crate) fn sys(&self) -> &Arc<Running> {
        &self.inner.sys
    }

    pub(crate) fn open_blocks(&self) -> &OpenBlocks {
        &self.inner.open_blocks
    }

    pub(crate) fn shared_fence(&self) -> &Fence {
        &self.inner.fence
    }

    pub(crate) fn fence_state(&self) -> Arc<FenceState> {
        self.inner.fence.state()
    }

    pub(crate) fn token_table(&self) -> &TokenTable {
        &self.inner.tokens
    }

    /// Every application that runs: the registry, the built-in ones, then the others in the order in which they were given.
    pub(crate) fn all_running(&self) -> impl Iterator<Item = &Arc<Running>> {
        let running = self.inner.names.iter().filter_map(|name| self.inner.applications.get(name));
        std::iter::once(&self.inner.sys).chain(running)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Creates a workspace. A name leads to one workspace of its application: the same name again gives the same id.
    /// Says whether it is new.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn create_workspace(
        &self,
        application: &str,
        kind: &str,
        name: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let (running, kind) = self.kind_for_users(application, kind)?;
        self.workspace_for(running, kind, name, None).await
    }

    /// As [`Engine::create_workspace`], under an idempotency key: the same key again gives the same workspace again, named or
    /// not.
    ///
    /// # Errors
    ///
    /// [`SubmitError::KeyReused`] if the key was used for another kind or name.
    pub async fn create_workspace_once(
        &self,
        application: &str,
        kind: &str,
        name: Option<&str>,
        key: &str,
    ) -> Result<(Workspace, bool), SubmitError> {
        check_key(key)?;
        let (running, kind) = self.kind_for_users(application, kind)?;
        self.workspace_for(running, kind, name, Some(key)).await
    }

    /// A kind of workspace that users make by themselves.
    fn kind_for_users(
        &self,
        application: &str,
        kind: &str,
    ) -> Result<(&Running, WorkspaceKind), SubmitError> {
        let running = self.running(application)?;
        if let Some(built_in) = &running.built_in {
            return Err(RequestError::Refused(built_in.terms.refuses_workspaces.to_owned()).into());
        }
        let kind = running.schema.kind_by_name(kind);
        let kind = kind
            .ok_or_else(|| SubmitError::NotFound("the application has no such kind of workspace".into()))?
            .id;
        Ok((running, kind))
    }

    /// The workspace with a name, made if it is not there; or a new one without a name.
    pub(crate) async fn workspace_for(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let scope = running.schema.name();
        if let Some(name) = name
            && let Some(id) = self.registry().named(scope, name).await?
        {
            return Ok((self.described(running, id).await?, false));
        }
        self.new_workspace(running, kind, name, key).await
    }

    /// A new workspace, for a name that was looked up and not found; the one that has the name or the key by now, if
    /// somebody was faster.
    pub(crate) async fn new_workspace(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        if self.fence_state().fenced {
            return Err(SubmitError::Fenced("ids of workspaces".to_owned()));
        }
        self.register_workspace(running, kind, name, false, key).await
    }

    /// Registers a workspace under a new id, or finds the one that has the name or the key by now.
    pub(crate) async fn register_workspace(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        unfencing: bool,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let (application, scope) = (running.schema.id(), running.schema.name());
        let candidate =
            self.inner.workspace_ids.allocate_one().await.map_err(|error| allocate_error(&error))?;
        let candidate = WorkspaceId::new(candidate.get());
        let registration = Registration { application, kind, scope, name, candidate, unfencing, key };
        let (id, created) = self.registry().register(registration).await?;
        if !created {
            return Ok((self.described(running, id).await?, false));
        }
        self.inner.kinds.insert((application, id), kind);
        Ok((Workspace { id, kind, name: name.map(str::to_owned) }, true))
    }

    async fn described(&self, running: &Running, id: WorkspaceId) -> Result<Workspace, SubmitError> {
        let found = self.registry().workspace(running.schema.id(), id).await?;
        found.ok_or(SubmitError::UnknownWorkspace(id))
    }

    /// What the registry knows of a workspace.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownWorkspace`] if there is none.
    pub async fn workspace(&self, application: &str, id: WorkspaceId) -> Result<Workspace, SubmitError> {
        let running = self.running(application)?;
        self.described(running, id).await
    }

    /// The workspace that a name leads to.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn workspace_named(
        &self,
        application: &str,
        name: &str,
    ) -> Result<Option<WorkspaceId>, SubmitError> {
        self.running(application)?;
        self.registry().named(application, name).await
    }

    /// Up to `limit` workspaces behind an id, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn workspaces(
        &self,
        application: &str,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Workspace>, SubmitError> {
        let running = self.running(application)?;
        self.registry().workspaces(running.schema.id(), after, limit).await
    }

    /// The kind of a workspace: from memory, else from the registry.
    pub(crate) async fn kind_of(
        &self,
        running: &Running,
        id: WorkspaceId,
    ) -> Result<WorkspaceKind, SubmitError> {
        let key = (running.schema.id(), id);
        if let Some(kind) = self.inner.kinds.get(&key) {
            return Ok(kind);
        }
        let kind = self.described(running, id).await?.kind;
        self.inner.kinds.insert(key, kind);
        Ok(kind)
    }

    /// Does a command: durable when it answers. Dropping the future does not cancel it.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: unless its kind is `InDoubt`, nothing was done.
    pub async fn submit(
        &self,
        application: &str,
        workspace: WorkspaceId,
        request: &Request,
    ) -> Result<Answer, SubmitError> {
        let running = self.running(application)?;
        if let Some(text) = running.built_in.as_ref().and_then(|built_in| built_in.terms.refuses_commands) {
            return Err(RequestError::Refused(text.to_owned()).into());
        }
        let kind = self.kind_of(running, workspace).await?;
        running.submit(workspace, kind, Cow::Borrowed(request)).await
    }

    /// A look at every partition, with the name of its application: of the registry, of the built-in applications, and of the
    /// others in the order in which they were given.
    #[must_use]
    pub fn all_partitions(&self) -> Vec<(String, PartitionState)> {
        let states = |running: &Arc<Running>| {
            let name = running.schema.name().to_owned();
            let states: Vec<_> = running.partitions.iter().map(PartitionHandle::state).collect();
            states.into_iter().map(move |state| (name.clone(), state))
        };
        self.all_running().flat_map(states).collect()
    }

    /// A look at the partitions of an application.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`].
    pub fn partitions(&self, application: &str) -> Result<Vec<PartitionState>, SubmitError> {
        let running =
            if application == registry::NAME { &self.inner.sys } else { self.running(application)? };
        Ok(running.partitions.iter().map(PartitionHandle::state).collect())
    }

    /// Waits until every partition takes commands, but no longer than `within`. Says whether they do.
    pub async fn wait_ready(&self, within: Duration) -> bool {
        let all = async {
            for running in self.all_running() {
                if wait_ready(running).await.is_err() {
                    return false;
                }
            }
            true
        };
        self.inner.env.timeout(within, all).await.unwrap_or(false)
    }

    /// Ends everything: what is queued is done, and what waits is flushed. Storage stays open; it is the caller's.
    ///
    /// Four steps, because each needs the one before: the applications, the blocks, the registry, and one sync of the store for
    /// all of them. If storage does not answer, each takes [`Options::close_patience`] at the most.
    pub async fn close(&self) {
        join_all(self.inner.applications.values().map(|running| running.close())).await;
        join(self.inner.open_blocks.close(), self.close_workspace_ids()).await;
        self.inner.sys.close().await;
        let syncing = self.inner.store.sync();
        match self.inner.env.timeout(self.inner.options.close_patience, syncing).await {
            Ok(Ok(())) => {}
            // The next start replays what is not durable.
            Ok(Err(error)) => tracing::warn!(%error, "the store was not synced"),
            Err(_) => tracing::warn!("storage does not answer; closing without a sync"),
        }
    }

    async fn close_workspace_ids(&self) {
        let closing = self.inner.workspace_ids.close();
        match self.inner.env.timeout(self.inner.options.close_patience, closing).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the rest of a block of workspace ids was not given back");
            }
            Err(_) => tracing::warn!("storage does not answer; workspace ids are closed without it"),
        }
    }

    /// The partition of a workspace.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`].
    pub fn partition_of(
        &self,
        application: &str,
        workspace: WorkspaceId,
    ) -> Result<PartitionId, SubmitError> {
        Ok(self.running(application)?.schema.partitions().partition_of(workspace))
    }

    /// The store, for those who look at it from outside.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
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
    // Definitions are accepted also while everything is fenced. If the registry has lost one, its number must not lead to
    // the events of another application.
    unfence::pass_applications(sys, last).await?;
    Ok(Registry { sys }.fence(&tails).await?)
}

/// Waits until the partitions of an application take commands.
pub(crate) async fn wait_ready(running: &Running) -> Result<(), SubmitError> {
    for partition in &running.partitions {
        partition.wait_ready().await?;
    }
    Ok(())
}

fn allocate_error(error: &AllocateError) -> SubmitError {
    SubmitError::NotWritten(format!("no workspace id could be allocated: {error}"))
}
