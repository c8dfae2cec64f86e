//! Applications and their partitions.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use seriatim_engine::definition::{DocumentKind, FieldKind, Schema};

use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

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

fn view(schema: &Schema) -> Value {
    let documents = schema.documents().iter().filter(|document| !document.retired).map(|document| {
        let kind = match document.kind {
            DocumentKind::C => "C",
            DocumentKind::O => "O",
            DocumentKind::W => "W",
        };
        let fields = document.fields.iter().filter(|field| !field.retired).map(|field| {
            json!({
                "name": field.name,
                "type": field_type(field.kind),
                "required": field.required,
                "draw": field.draw.and_then(|id| schema.sequence(id)).map(|sequence| sequence.name.clone()),
            })
        });
        json!({
            "name": document.name,
            "kind": kind,
            "singleton": document.singleton.is_some(),
            "parent": document.parent.and_then(|id| schema.document(id)).map(|parent| parent.name.clone()),
            "fields": fields.collect::<Vec<_>>(),
        })
    });
    let kinds = schema.kinds().iter().filter(|kind| !kind.retired).map(|kind| kind.name.clone());
    json!({
        "name": schema.name(),
        "partitions": schema.partitions().get(),
        "kinds": kinds.collect::<Vec<_>>(),
        "documents": documents.collect::<Vec<_>>(),
        "commands": schema.commands().map(|command| command.name.clone()).collect::<Vec<_>>(),
    })
}

pub(super) async fn list(State(api): State<Api>) -> Json<Value> {
    let names = api.engine.applications().iter();
    let views: Vec<Value> = names.filter_map(|name| api.engine.schema(name)).map(view).collect();
    Json(json!(views))
}

pub(super) async fn show(State(api): State<Api>, Path(app): Path<String>) -> Result<Json<Value>, Problem> {
    Ok(Json(view(api.schema(&app)?)))
}

pub(super) async fn partitions(
    State(api): State<Api>,
    Path(app): Path<String>,
) -> Result<Json<Value>, Problem> {
    let states = api.engine.partitions(&app)?;
    Ok(Json(json!(states.iter().map(wire::partition).collect::<Vec<_>>())))
}
