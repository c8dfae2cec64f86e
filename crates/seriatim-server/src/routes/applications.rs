//! Applications and their partitions.

use axum::extract::State;
use axum::{Extension, Json};
use seriatim_api::{Application, Document, Field, NamedPartition, PartitionState};
use seriatim_engine::definition::{DocumentKind, DocumentSchema, FieldKind, Schema};
use seriatim_engine::{Access, Grants};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(partitions))
        .routes(routes!(all_partitions))
}

fn field_type(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Text => "text",
        FieldKind::Integer => "integer",
        FieldKind::Decimal => "decimal",
        FieldKind::Bool => "bool",
        FieldKind::Timestamp => "timestamp",
        FieldKind::Reference(_) => "reference",
        FieldKind::Json => "json",
    }
}

fn document(schema: &Schema, document: &DocumentSchema) -> Document {
    let kind = match document.kind {
        DocumentKind::C => "C",
        DocumentKind::O => "O",
        DocumentKind::W => "W",
    };
    let fields = document.fields.iter().filter(|field| !field.retired).map(|field| Field {
        name: field.name.to_string(),
        kind: field_type(field.kind).to_owned(),
        required: field.required,
        draw: field.draw.and_then(|id| schema.sequence(id)).map(|sequence| sequence.name.to_string()),
    });
    let parent = document.parent.and_then(|id| schema.document(id));
    Document {
        name: document.name.to_string(),
        kind: kind.to_owned(),
        singleton: document.singleton.is_some(),
        parent: parent.map(|parent| parent.name.to_string()),
        fields: fields.collect(),
    }
}

fn application(schema: &Schema) -> Application {
    let documents = schema.documents().iter().filter(|document| !document.retired);
    let kinds = schema.kinds().iter().filter(|kind| !kind.retired);
    Application {
        name: schema.name().to_owned(),
        partitions: schema.partitions().get(),
        kinds: kinds.map(|kind| kind.name.to_string()).collect(),
        documents: documents.map(|found| document(schema, found)).collect(),
        commands: schema.commands().map(|command| command.name.to_string()).collect(),
    }
}

/// The applications that the token may read.
#[utoipa::path(get, path = "/v1/apps", tag = "applications", responses((status = 200, body = Vec<Application>)))]
async fn list(State(api): State<Api>, grants: Option<Extension<Grants>>) -> Json<Vec<Application>> {
    let may = |name: &&String| grants.as_ref().is_none_or(|grants| grants.allow(Some(name), Access::Read));
    let names = api.engine.applications().iter().filter(may);
    Json(names.filter_map(|name| api.engine.schema(name)).map(application).collect())
}

/// One application.
#[utoipa::path(
    get, path = "/v1/apps/{app}", tag = "applications", params(("app" = String, Path, example = "shop")),
    responses((status = 200, body = Application))
)]
async fn show(State(api): State<Api>, Path(app): Path<String>) -> Result<Json<Application>, Problem> {
    Ok(Json(application(api.schema(&app)?)))
}

/// The state of its partitions.
#[utoipa::path(
    get, path = "/v1/apps/{app}/partitions", tag = "applications",
    params(("app" = String, Path, example = "shop")),
    responses((status = 200, body = Vec<PartitionState>))
)]
async fn partitions(
    State(api): State<Api>,
    Path(app): Path<String>,
) -> Result<Json<Vec<PartitionState>>, Problem> {
    let fenced = api.engine.fenced().is_some();
    let states = api.engine.partitions(&app)?;
    Ok(Json(states.iter().map(|state| wire::partition(state, fenced)).collect()))
}

/// The state of all partitions that the token may read, including those of built-in applications.
#[utoipa::path(
    get, path = "/v1/partitions", tag = "applications", responses((status = 200, body = Vec<NamedPartition>))
)]
async fn all_partitions(
    State(api): State<Api>,
    grants: Option<Extension<Grants>>,
) -> Json<Vec<NamedPartition>> {
    let may = |name: &str| grants.as_ref().is_none_or(|grants| grants.allow(Some(name), Access::Read));
    let fenced = api.engine.fenced().is_some();
    let states = api.engine.all_partitions().into_iter().filter(|(name, _)| may(name));
    Json(states.map(|(app, state)| NamedPartition { app, state: wire::partition(&state, fenced) }).collect())
}
